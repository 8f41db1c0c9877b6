package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spillway-dev/spillway/internal/eventually"
)

// A Deployment makes Pods; a Service's EndpointSlice holds those that are
// ready, with the zone of their Node; deleting the Deployment takes them all.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	makeNamespace(t, s, "shop")
	ctx := t.Context()
	node := &corev1.Node{ObjectMeta: named("node-1")}
	node.Labels = map[string]string{corev1.LabelTopologyZone: "zone-a", corev1.LabelTopologyRegion: "eu"}
	must(t)(s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}))
	labels := map[string]string{"app": "web"}
	replicas := int32(2)
	must(t)(s.client.AppsV1().Deployments("shop").Create(ctx, &appsv1.Deployment{
		ObjectMeta: named("web"),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "echo", Image: "echo"}}},
			},
		},
	}, metav1.CreateOptions{}))
	must(t)(s.client.CoreV1().Services("shop").Create(ctx, &corev1.Service{
		ObjectMeta: named("web"),
		Spec: corev1.ServiceSpec{
			Selector: labels,
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{}))

	for i, pod := range pods(t, s, 2) {
		for _, v := range pod.Spec.Volumes {
			t.Errorf("pod %s has a volume %s that nobody mounts", pod.Name, v.Name)
		}
		runPod(t, s, pod, "node-1", fmt.Sprintf("10.1.0.%d", i+1))
	}
	eventually.Nil(t, "the slice has two endpoints in zone-a", func(ctx context.Context) error {
		return endpointsAre(ctx, s, "10.1.0.1 zone-a true, 10.1.0.2 zone-a true")
	})
	eventually.Nil(t, "the Deployment is available", func(ctx context.Context) error {
		d, err := s.client.AppsV1().Deployments("shop").Get(ctx, "web", metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != 2 {
			err = fmt.Errorf("%d available", d.Status.AvailableReplicas)
		}
		return err
	})
	if err := s.client.AppsV1().Deployments("shop").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the pods are being deleted", func(ctx context.Context) error {
		list, err := s.client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil {
				return fmt.Errorf("%s is not", p.Name)
			}
		}
		return nil
	})
	eventually.Nil(t, "terminating pods are not ready", func(ctx context.Context) error {
		return endpointsAre(ctx, s, "10.1.0.1 zone-a false, 10.1.0.2 zone-a false")
	})
}

// must fails the test when a create did.
func must(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func pods(t *testing.T, s *server, n int) (out []corev1.Pod) {
	t.Helper()
	eventually.Nil(t, fmt.Sprintf("%d pods", n), func(ctx context.Context) error {
		list, err := s.client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		out = list.Items
		if len(out) != n {
			return fmt.Errorf("%d pods", len(out))
		}
		return nil
	})
	return out
}

// runPod does what a kubelet does: binds a pod and reports it ready.
func runPod(t *testing.T, s *server, pod corev1.Pod, node, ip string) {
	t.Helper()
	core := s.client.CoreV1().Pods(pod.Namespace)
	bind := &corev1.Binding{ObjectMeta: named(pod.Name), Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := core.Bind(t.Context(), bind, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}],"conditions":[{"type":"Ready","status":"True"}]}}`, ip, ip)
	must(t)(core.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))
}

// endpointsAre compares the endpoints of service web, "address zone ready" each.
func endpointsAre(ctx context.Context, s *server, want string) error {
	list, err := s.client.DiscoveryV1().EndpointSlices("shop").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
	if err != nil {
		return err
	}
	byAddress := map[string]string{}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			zone := "none"
			if e.Zone != nil {
				zone = *e.Zone
			}
			byAddress[e.Addresses[0]] = fmt.Sprintf("%s %s %v", e.Addresses[0], zone, e.Conditions.Ready != nil && *e.Conditions.Ready)
		}
	}
	if got := strings.Join(slices.Sorted(maps.Values(byAddress)), ", "); got != want {
		return fmt.Errorf("endpoints %q, want %q", got, want)
	}
	return nil
}
