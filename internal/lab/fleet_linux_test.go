package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/lab/echo"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// spillway is the plain binary: $SPILLWAY_BINARY, or bin/spillway at the
// repository root. Without it the test is skipped by name, and fails in CI.
func spillway(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SPILLWAY_BINARY")
	if path == "" {
		path = filepath.Join("..", "..", "bin", "spillway")
	}
	if !isProgram(path) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no %s: run `make build`", path)
		}
		t.Skipf("no %s: run `make build`", path)
	}
	return path
}

// TestFleet runs the plain binary: real API servers, pods as processes, all
// faults of members and hub. Its edge is a fake, as Envoy has its own tests.
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three API servers")
	}
	spec := DefaultSpec()
	spec.Members, spec.Edges = spec.Members[1:], nil
	spec.Members[0].Zones = []string{"eu-a", "eu-b"}
	spec.Dir, spec.Binary, spec.Loopback = t.TempDir(), spillway(t), somewhere()
	spec.Images = map[string]string{"tools/sh": "/bin/sh -c"}
	l := startOrSkip(t, spec)
	f := &fleetTest{T: t, lab: l}
	t.Run("registered", f.registered)
	t.Run("deployment", f.deployment)
	t.Run("volumes", f.volumes)
	t.Run("api cut", f.apiCut)
	t.Run("hub", f.hub)
}

type fleetTest struct {
	*testing.T
	lab *Lab
}

func (f *fleetTest) client(t *testing.T, member string) kubernetes.Interface {
	t.Helper()
	path := f.lab.HubKubeconfig()
	if member != "" {
		path = f.lab.MemberKubeconfig(member)
	}
	c, err := clientFor(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *fleetTest) registered(t *testing.T) {
	b, err := f.client(t, "").Discovery().RESTClient().Get().AbsPath("/apis/spillway.dev/v1alpha1/memberclusters").Do(t.Context()).Raw()
	if err != nil || strings.Count(string(b), `"kubeconfigSecretRef"`) < 2 {
		t.Errorf("%s, %v", b, err)
	}
	nodes, err := f.client(t, "eu-2").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 || nodes.Items[1].Labels[corev1.LabelTopologyZone] != "eu-b" {
		t.Errorf("%+v, %v", nodes, err)
	}
}

// deployment: two pods in two zones answer at their addresses, a rollout
// replaces them, scaling to zero ends them.
func (f *fleetTest) deployment(t *testing.T) {
	ctx, c := t.Context(), f.client(t, "eu-2")
	two := int32(2)
	probe := &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}}
	grace := int64(1)
	d, err := c.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "echo", Image: EchoImage, ReadinessProbe: probe}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := f.awaitPods(t, c, 2)
	zones := map[string]bool{}
	for _, p := range first {
		a := f.askPod(t, p)
		if a.Pod != p.Name || a.Member != "eu-2" || a.Node != p.Spec.NodeName {
			t.Errorf("%+v", a)
		}
		zones[a.Zone] = true
	}
	if !zones["eu-a"] || !zones["eu-b"] {
		t.Errorf("zones %v", zones)
	}
	d.Spec.Template.Annotations = map[string]string{"rollout": "1"}
	patch, _ := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": d.Spec.Template.Annotations}}}})
	if _, err := c.AppsV1().Deployments("default").Patch(ctx, "web", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "rollout", func(context.Context) error {
		for _, p := range f.awaitPods(t, c, 2) {
			for _, old := range first {
				if p.Name == old.Name {
					return fmt.Errorf("%s is still there", p.Name)
				}
			}
		}
		return nil
	})
	if err := c.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.awaitPods(t, c, 0)
}

// askPod asks a pod from another pod's network: through the API server's host
// there is no way in, which is the point of a pod network.
func (f *fleetTest) askPod(t *testing.T, p corev1.Pod) echo.Answer {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(f.lab.Dir(), "logs", "members", "eu-2", fmt.Sprintf("default_%s_echo.log", p.Name)))
	if err != nil || !strings.Contains(string(b), "serves") {
		t.Errorf("log %q, %v", b, err)
	}
	c := f.client(t, "eu-2")
	name := "ask-" + p.Name
	_, err = c.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
			Name: "ask", Image: "tools/sh", Args: []string{program(t) + " play-get http://" + p.Status.PodIP + ":8080/"},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var a echo.Answer
	f.awaitPhase(t, c, name, corev1.PodSucceeded)
	out, err := os.ReadFile(filepath.Join(f.lab.Dir(), "logs", "members", "eu-2", fmt.Sprintf("default_%s_ask.log", name)))
	if err == nil {
		err = json.Unmarshal(out, &a)
	}
	if err != nil {
		t.Errorf("%q: %v", out, err)
	}
	if err := c.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	return a
}

func (f *fleetTest) awaitPhase(t *testing.T, c kubernetes.Interface, name string, want corev1.PodPhase) {
	t.Helper()
	eventually.Nil(t, name, func(context.Context) error {
		p, err := c.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != want {
			err = fmt.Errorf("phase %s, %+v", p.Status.Phase, p.Status.ContainerStatuses)
			if p.Status.Phase == corev1.PodFailed {
				out, _ := filepath.Glob(filepath.Join(f.lab.Dir(), "logs", "members", "*", "default_"+name+"_*"))
				for _, path := range out {
					b, _ := os.ReadFile(path)
					t.Logf("%s:\n%s", path, b)
				}
				t.Fatal(err)
			}
		}
		return err
	})
}

// awaitPods waits until exactly n pods with app=web are left, all ready.
func (f *fleetTest) awaitPods(t *testing.T, c kubernetes.Interface, n int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually.Nil(t, fmt.Sprintf("%d pods", n), func(context.Context) error {
		list, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		pods = list.Items
		if len(pods) != n {
			return fmt.Errorf("there are %d", len(pods))
		}
		for _, p := range pods {
			if len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready {
				return fmt.Errorf("%s is not ready: %+v", p.Name, p.Status)
			}
		}
		return nil
	})
	return pods
}

func (f *fleetTest) volumes(t *testing.T) {
	c := f.client(t, "us-1")
	if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "conf"}, Data: map[string]string{"a": "text"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: "default",
			Volumes: []corev1.Volume{
				{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}},
				{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}},
			},
			Containers: []corev1.Container{{
				Name: "c", Image: "tools/sh", VolumeMounts: []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/lab/conf"}, {Name: "token", MountPath: "/var/run/secrets/lab"}},
				Args: []string{`cat /etc/lab/conf/a; echo; hostname; wc -c < /var/run/secrets/lab/token`},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.awaitPhase(t, c, "job", corev1.PodSucceeded)
	out, err := os.ReadFile(filepath.Join(f.lab.Dir(), "logs", "members", "us-1", "default_job_c.log"))
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 3 || lines[0] != "text" || lines[1] != "job" || lines[2] == "0" {
		t.Errorf("%q, %v", out, err)
	}
}

// apiCut: users get nothing or a refusal; the kubelet goes on.
func (f *fleetTest) apiCut(t *testing.T) {
	ask := func(wait time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		return f.client(t, "us-1").Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	}
	if err := f.lab.Cut(t.Context(), "us-1", PartBoth, ModeRefuse); err != nil {
		t.Fatal(err)
	}
	if err := ask(patience); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error("refused:", err)
	}
	if err := f.lab.Cut(t.Context(), "us-1", PartAPI, ModeDrop); err != nil {
		t.Fatal(err)
	}
	if err := ask(200 * time.Millisecond); !isTimeout(err) {
		t.Error("dropped:", err)
	}
	st, err := f.lab.Status(t.Context())
	if err != nil || st.Members[1].API.Cut != ModeDrop || st.Members[1].DataCut != ModeRefuse {
		t.Errorf("%+v, %v", st.Members, err)
	}
	if err := f.lab.Heal(t.Context(), "all"); err != nil {
		t.Fatal(err)
	}
	if err := ask(patience); err != nil {
		t.Error("healed:", err)
	}
	if err := f.lab.Pause(t.Context(), "us-1"); err != nil {
		t.Fatal(err)
	}
	if err := ask(200 * time.Millisecond); !isTimeout(err) {
		t.Error("paused:", err)
	}
	if st, err = f.lab.Status(t.Context()); err != nil || !st.Members[1].API.Process.Paused {
		t.Errorf("%+v, %v", st.Members, err)
	}
	if err := f.lab.Heal(t.Context(), "us-1"); err != nil {
		t.Fatal(err)
	}
	if err := ask(patience); err != nil {
		t.Error("resumed:", err)
	}
	if err := f.lab.KillMember(t.Context(), "us-1"); err != nil {
		t.Fatal(err)
	}
	if err := ask(patience); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error("killed:", err)
	}
	if err := f.lab.Heal(t.Context(), "us-1"); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the healed API server", func(context.Context) error { return ask(patience) })
}

func isTimeout(err error) bool {
	var u *url.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &u) && u.Timeout() || errors.Is(err, http.ErrHandlerTimeout)
}

// hub: a killed hub refuses, and comes back with its objects.
func (f *fleetTest) hub(t *testing.T) {
	if err := f.lab.KillHub(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg, err := user.Config(f.lab.HubKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(cfg.Host, "https://")); err == nil {
		t.Error("the dead hub's port is open")
	}
	if err := f.lab.StartHub(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client(t, "").CoreV1().Secrets(SystemNamespace).Get(t.Context(), "member-us-1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
