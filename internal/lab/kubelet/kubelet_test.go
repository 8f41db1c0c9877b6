package kubelet

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pod(name string, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: containers}}
}

func container(image string) corev1.Container { return corev1.Container{Name: "c", Image: image} }

func TestPodRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(pod("a", container("web")))
		w.create(pod("b", container("web:v2")))
		a, b := w.get("a"), w.get("b")
		if a.Spec.NodeName != "n1" || b.Spec.NodeName != "n2" {
			t.Errorf("nodes %s, %s", a.Spec.NodeName, b.Spec.NodeName)
		}
		if !isReady(a) || a.Status.Phase != corev1.PodRunning || a.Status.PodIP != "10.1.1.2" || a.Status.ContainerStatuses[0].State.Running == nil {
			t.Errorf("%+v", a.Status)
		}
		if !isReady(b) || b.Status.PodIP != "10.1.2.2" {
			t.Errorf("%+v", b.Status)
		}
		w.delete("a", 30)
		if !w.gone("a") || w.gone("b") {
			t.Error("a should be gone, b not")
		}
		// Its address is used as late as possible again.
		w.create(pod("c", container("web")))
		if c := w.get("c"); c.Status.PodIP != "10.1.1.3" {
			t.Error(c.Status.PodIP)
		}
	})
}

func TestNodeSelector(t *testing.T) {
	inWorld(t, func(w *world) {
		for zone, node := range map[string]string{"eu-b": "n2", "us-a": ""} {
			p := pod("in-"+zone, container("web"))
			p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
			w.create(p)
			if got := w.get("in-" + zone).Spec.NodeName; got != node {
				t.Errorf("zone %s: node %q, want %q", zone, got, node)
			}
		}
	})
}

func TestUnknownImage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(pod("a", container("nginx:1.27")))
		st := w.get("a").Status
		wait := st.ContainerStatuses[0].State.Waiting
		if st.Phase != corev1.PodPending || wait == nil || wait.Reason != "ErrImagePull" ||
			!strings.Contains(wait.Message, `"nginx:1.27"`) || !strings.Contains(wait.Message, "--image nginx=PATH") {
			t.Errorf("%+v", st)
		}
		w.delete("a", 30)
		if !w.gone("a") {
			t.Error("not gone")
		}
	})
}

func TestReadiness(t *testing.T) {
	inWorld(t, func(w *world) {
		c := container("web")
		c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
		c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 5, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}}
		w.create(pod("a", c))
		if isReady(w.get("a")) {
			t.Error("ready before it listens")
		}
		w.listen(8080, true)
		time.Sleep(2 * eager) // fake time
		synctest.Wait()
		if !isReady(w.get("a")) {
			t.Error("not ready soon after it listens")
		}
		since := w.get("a").Status.Conditions[3].LastTransitionTime
		w.listen(8080, false)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if !isReady(w.get("a")) {
			t.Error("unready before the threshold")
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if p := w.get("a"); isReady(p) || !p.Status.Conditions[3].LastTransitionTime.After(since.Time) || p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("%+v", p.Status)
		}
	})
}

// Readiness goes on while a pod ends, so that its endpoint stays "serving".
func TestTermination(t *testing.T) {
	inWorld(t, func(w *world) {
		c := container("stubborn")
		c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
		w.listen(80, true)
		w.create(pod("a", c))
		start := time.Now()
		w.delete("a", 10)
		if w.gone("a") || !isReady(w.get("a")) {
			t.Fatal("the pod should live on, ready")
		}
		w.listen(80, false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if w.gone("a") || isReady(w.get("a")) {
			t.Fatal("the pod should live on, unready")
		}
		<-w.runs()[0].Done()
		if d := time.Since(start); d != 10*time.Second || w.runs()[0].Exit().Signal != 9 {
			t.Errorf("ended after %s with %+v", d, w.runs()[0].Exit())
		}
		synctest.Wait()
		if !w.gone("a") || w.k.Pods() != 0 {
			t.Error("not gone")
		}
	})
}

func TestGraceMayShrink(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(pod("a", container("stubborn")))
		start := time.Now()
		w.delete("a", 600)
		time.Sleep(time.Second)
		w.delete("a", 1)
		<-w.runs()[0].Done()
		if d := time.Since(start); d != 2*time.Second {
			t.Error(d)
		}
	})
}

func TestPreStop(t *testing.T) {
	inWorld(t, func(w *world) {
		c := container("web")
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 4}}}
		w.create(pod("a", c))
		start := time.Now()
		w.delete("a", 30)
		<-w.runs()[0].Done()
		if d := time.Since(start); d != 4*time.Second || w.runs()[0].Exit().Code != 0 {
			t.Error(d, w.runs()[0].Exit())
		}
	})
}

func TestCrashBackoff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(pod("a", container("web")))
		var gaps []time.Duration
		for i := range 4 {
			w.runs()[i].end(Exit{Code: 3})
			ended := time.Now()
			synctest.Wait()
			st := w.get("a").Status.ContainerStatuses[0]
			if st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" || st.LastTerminationState.Terminated.ExitCode != 3 || isReady(w.get("a")) {
				t.Fatalf("%+v", st)
			}
			for len(w.runs()) == i+1 {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			gaps = append(gaps, time.Since(ended))
		}
		want := []time.Duration{firstCrash, 2 * firstCrash, 4 * firstCrash, 8 * firstCrash}
		if !slices.Equal(gaps, want) {
			t.Error(gaps)
		}
		if st := w.get("a").Status.ContainerStatuses[0]; st.RestartCount != 4 || !isReady(w.get("a")) {
			t.Errorf("%+v", st)
		}
	})
}

func TestLiveness(t *testing.T) {
	inWorld(t, func(w *world) {
		c := container("web")
		c.LivenessProbe = &corev1.Probe{PeriodSeconds: 2, FailureThreshold: 2, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
		w.listen(80, true)
		w.create(pod("a", c))
		w.listen(80, false)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if len(w.runs()) < 2 || w.get("a").Status.ContainerStatuses[0].RestartCount == 0 {
			t.Errorf("%d runs", len(w.runs()))
		}
	})
}

func TestJob(t *testing.T) {
	for _, tc := range []struct {
		policy corev1.RestartPolicy
		codes  []int
		phase  corev1.PodPhase
	}{
		{corev1.RestartPolicyNever, []int{0}, corev1.PodSucceeded},
		{corev1.RestartPolicyNever, []int{1}, corev1.PodFailed},
		{corev1.RestartPolicyOnFailure, []int{1, 0}, corev1.PodSucceeded},
	} {
		inWorld(t, func(w *world) {
			p := pod("a", container("job"))
			p.Spec.RestartPolicy = tc.policy
			w.create(p)
			for i, code := range tc.codes {
				w.runs()[i].end(Exit{Code: code})
				time.Sleep(time.Second)
				synctest.Wait()
			}
			if got := w.get("a").Status.Phase; got != tc.phase || len(w.runs()) != len(tc.codes) {
				t.Errorf("%s %v: %s after %d runs", tc.policy, tc.codes, got, len(w.runs()))
			}
			w.delete("a", 30)
			if !w.gone("a") {
				t.Error("not gone")
			}
		})
	}
}

func TestInitContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		always := corev1.ContainerRestartPolicyAlways
		p := pod("a", container("web"))
		p.Spec.InitContainers = []corev1.Container{
			{Name: "side", Image: "web", RestartPolicy: &always},
			{Name: "init", Image: "job"},
		}
		w.create(p)
		if names := runNames(w); names != "side init" {
			t.Fatal(names)
		}
		w.runs()[1].end(Exit{Code: 1})
		time.Sleep(time.Second)
		synctest.Wait()
		if names := runNames(w); names != "side init init" {
			t.Fatal(names)
		}
		w.runs()[2].end(Exit{})
		synctest.Wait()
		if names := runNames(w); names != "side init init c" || !isReady(w.get("a")) {
			t.Fatalf("%s: %+v", names, w.get("a").Status)
		}
		w.delete("a", 30)
		if !w.gone("a") {
			t.Error("not gone")
		}
	})
}

func runNames(w *world) string {
	var names []string
	for _, r := range w.runs() {
		names = append(names, r.prog.Name)
	}
	return strings.Join(names, " ")
}

func TestEnvironment(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := context.Background()
		_, _ = w.client.CoreV1().Secrets("shop").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("secret")}}, metav1.CreateOptions{})
		c := container("web")
		c.Args = []string{"--ip=$(IP)", "$$(IP)", "$(NONE)"}
		optional := true
		c.Env = []corev1.EnvVar{
			{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "URL", Value: "http://$(IP)/"},
			{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}},
			{Name: "ABSENT", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "k", Optional: &optional}}},
		}
		w.create(pod("a", c))
		prog := w.runs()[0].prog
		if got := strings.Join(prog.Argv, " "); got != "web --ip=10.1.1.2 $(IP) $(NONE)" {
			t.Error(got)
		}
		for _, want := range []string{"IP=10.1.1.2", "URL=http://10.1.1.2/", "SECRET=secret", "SPILLWAY_POD=a", "SPILLWAY_ZONE=eu-a", "SPILLWAY_MEMBER=eu-1"} {
			if !slices.Contains(prog.Env, want) {
				t.Errorf("no %s in %v", want, prog.Env)
			}
		}
		if slices.ContainsFunc(prog.Env, func(e string) bool { return strings.HasPrefix(e, "ABSENT=") }) {
			t.Error("the absent variable is set")
		}
		// A Secret that comes later is waited for.
		c.Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}, Key: "k"}}}}
		w.create(pod("b", c))
		if wait := w.get("b").Status.ContainerStatuses[0].State.Waiting; wait == nil || wait.Reason != "CreateContainerConfigError" || !strings.Contains(wait.Message, "Secret shop/late does not exist") {
			t.Errorf("%+v", wait)
		}
		_, _ = w.client.CoreV1().Secrets("shop").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string][]byte{"k": []byte("v")}}, metav1.CreateOptions{})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !isReady(w.get("b")) {
			t.Error("b does not start")
		}
	})
}

func TestArgv(t *testing.T) {
	images := Images{"shop/web": "/bin/web serve", "shop/web:v2": "/bin/web2"}
	for _, tc := range []struct {
		image         string
		command, args []string
		want          string
	}{
		{"shop/web", nil, nil, "/bin/web serve"},
		{"shop/web:v1", nil, []string{"x"}, "/bin/web serve x"},
		{"shop/web:v2", nil, nil, "/bin/web2"},
		{"shop/web@sha256:ab", []string{"/web", "y"}, []string{"x"}, "/bin/web y x"},
		{"localhost:5000/web", nil, nil, ""},
	} {
		got, err := images.Argv(tc.image, tc.command, tc.args)
		if strings.Join(got, " ") != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %v, %v", tc.image, got, err)
		}
	}
}

func TestPoolRunsDry(t *testing.T) {
	n := &nodePool{node: Node{Name: "n", Pods4: netip.MustParsePrefix("10.1.1.0/24"), Pods6: netip.MustParsePrefix("fd10:0:0:1::/64")}}
	seen := map[string]bool{}
	var last []netip.Addr
	for range lastHost - firstHost + 1 {
		a, err := n.take()
		if err != nil || seen[a[0].String()] || !n.node.Pods4.Contains(a[0]) || !n.node.Pods6.Contains(a[1]) {
			t.Fatal(a, err)
		}
		seen[a[0].String()], last = true, a
	}
	if _, err := n.take(); err == nil {
		t.Error("a full node gave an address")
	}
	n.put(last)
	if a, err := n.take(); err != nil || a[0] != last[0] {
		t.Error(a, err)
	}
}
