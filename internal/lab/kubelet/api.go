package kubelet

import (
	"context"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	firstRetry     = 100 * time.Millisecond
	maxRetry       = 5 * time.Second
	heartbeatEvery = 5 * time.Minute
	version        = "v1.37.1-lab"
)

// retry calls f until it succeeds, its object is gone or changed hands, or
// ctx ends.
func (k *Kubelet) retry(ctx context.Context, what string, f func() error) {
	for wait := firstRetry; ; wait = min(2*wait, maxRetry) {
		err := f()
		switch {
		case err == nil:
			return
		case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err), ctx.Err() != nil:
			if apierrors.IsInvalid(err) {
				k.Log.Error("the API refused", "member", k.Member, "what", what, "error", err)
			}
			return
		}
		k.Log.Warn("will retry", "member", k.Member, "what", what, "error", err)
		if !sleep(ctx, wait) {
			return
		}
	}
}

// sleep waits; false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// register makes the Node objects and reports them ready.
func (k *Kubelet) register(ctx context.Context) error {
	for _, n := range k.Nodes {
		want := nodeObject(n)
		_, err := k.Client.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := k.reportNode(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// heartbeat keeps the nodes' status fresh until ctx ends.
func (k *Kubelet) heartbeat(ctx context.Context) {
	for sleep(ctx, heartbeatEvery) {
		for _, n := range k.Nodes {
			if err := k.reportNode(ctx, n); err != nil {
				k.Log.Warn("node status not written", "member", k.Member, "node", n.Name, "error", err)
			}
		}
	}
}

func nodeObject(n Node) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux",
		corev1.LabelTopologyRegion: n.Region, corev1.LabelTopologyZone: n.Zone,
	}
	for key, value := range labels {
		if value == "" {
			delete(labels, key)
		}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels},
		Spec:       corev1.NodeSpec{PodCIDR: n.Pods4.String(), PodCIDRs: []string{n.Pods4.String()}},
	}
}

func (k *Kubelet) reportNode(ctx context.Context, n Node) error {
	node, err := k.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("250"),
	}
	now := metav1.Now()
	since := now
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			since = c.LastTransitionTime
		}
	}
	node.Status = corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.Address.String()}, {Type: corev1.NodeHostName, Address: n.Name}},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "the lab's kubelet runs pods as local processes",
			LastHeartbeatTime: now, LastTransitionTime: since,
		}},
		NodeInfo: corev1.NodeSystemInfo{KubeletVersion: version, OperatingSystem: "linux", ContainerRuntimeVersion: "process://1"},
	}
	if k.Logs != nil { // the API server is on the host, where the node's own address leads nowhere
		at := k.Logs.Listener.Addr().(*net.TCPAddr)
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: at.IP.String()})
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(at.Port)
	}
	_, err = k.Client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil // somebody wrote labels meanwhile: the next heartbeat will do
	}
	return err
}

// bind gives a pending pod a node.
func (k *Kubelet) bind(ctx context.Context, p *corev1.Pod) {
	node, why := k.binder.pick(p)
	if node == "" {
		k.events.Event(p, corev1.EventTypeWarning, "FailedScheduling", why)
		return
	}
	k.retry(ctx, "bind pod "+p.Namespace+"/"+p.Name, func() error {
		return k.Client.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
	})
}
