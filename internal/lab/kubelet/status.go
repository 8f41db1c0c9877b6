package kubelet

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// containerState is what is known about one container.
type containerState struct {
	spec     *corev1.Container
	init     bool
	sidecar  bool // an init container that goes on
	waiting  *corev1.ContainerStateWaiting
	running  *metav1.Time
	exited   *corev1.ContainerStateTerminated
	last     *corev1.ContainerStateTerminated
	restarts int32
	began    bool // it ran at least once
	started  bool // its startup probe, if any, has succeeded
	ready    bool
	up       chan struct{} // closed when it has started for the first time
}

// markStarted notes that the container has started.
func (c *containerState) markStarted() {
	c.started, c.ready = true, c.spec.ReadinessProbe == nil
	select {
	case <-c.up:
	default:
		close(c.up)
	}
}

// podState is what is known about a pod; status turns it into words.
type podState struct {
	policy     corev1.RestartPolicy
	addrs      []netip.Addr // none before the sandbox is there
	host       netip.Addr
	start      time.Time
	containers []*containerState // init containers first
	previous   []corev1.PodCondition
}

func newPodState(p *corev1.Pod, host netip.Addr, now time.Time) *podState {
	s := &podState{policy: p.Spec.RestartPolicy, host: host, start: now, previous: p.Status.Conditions}
	creating := &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		s.containers = append(s.containers, &containerState{spec: c, init: true, sidecar: sidecar, waiting: creating, up: make(chan struct{})})
	}
	if len(p.Spec.InitContainers) == 0 {
		creating = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	for i := range p.Spec.Containers {
		s.containers = append(s.containers, &containerState{spec: &p.Spec.Containers[i], waiting: creating, up: make(chan struct{})})
	}
	return s
}

// status is the pod's status at now. Conditions keep the time of their last
// change; the result's conditions become the previous ones.
func (s *podState) status(now time.Time) corev1.PodStatus {
	at := metav1.NewTime(s.start)
	out := corev1.PodStatus{
		Phase: s.phase(), StartTime: &at, // qosClass is the API server's
		HostIP: s.host.String(), HostIPs: []corev1.HostIP{{IP: s.host.String()}},
	}
	for _, a := range s.addrs {
		out.PodIPs = append(out.PodIPs, corev1.PodIP{IP: a.String()})
	}
	if len(s.addrs) > 0 {
		out.PodIP = s.addrs[0].String()
	}
	for _, c := range s.containers {
		if c.init {
			out.InitContainerStatuses = append(out.InitContainerStatuses, c.status())
		} else {
			out.ContainerStatuses = append(out.ContainerStatuses, c.status())
		}
	}
	out.Conditions = s.conditions(out.Phase, now)
	s.previous = out.Conditions
	return out
}

func (c *containerState) status() corev1.ContainerStatus {
	started := c.started // the result is read when the state goes on
	out := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: c.spec.Image, RestartCount: c.restarts, Ready: c.ready, Started: &started,
	}
	switch {
	case c.running != nil:
		out.State.Running = &corev1.ContainerStateRunning{StartedAt: *c.running}
	case c.exited != nil:
		out.State.Terminated = c.exited
	default:
		out.State.Waiting = c.waiting
	}
	if c.init && !c.sidecar {
		out.Ready = c.exited != nil && c.exited.ExitCode == 0
	}
	if c.last != nil {
		out.LastTerminationState.Terminated = c.last
	}
	return out
}

// phase follows the Kubernetes API's definition of a pod's phase.
func (s *podState) phase() corev1.PodPhase {
	began, over, failed := false, true, false
	for _, c := range s.containers {
		if c.init {
			if !c.sidecar && c.exited != nil && c.exited.ExitCode != 0 && s.policy == corev1.RestartPolicyNever {
				return corev1.PodFailed
			}
			continue
		}
		began = began || c.began
		over = over && c.exited != nil
		failed = failed || c.exited != nil && c.exited.ExitCode != 0
	}
	switch {
	case !began:
		return corev1.PodPending
	case !over || s.policy == corev1.RestartPolicyAlways || failed && s.policy == corev1.RestartPolicyOnFailure:
		return corev1.PodRunning
	case failed:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

func (s *podState) conditions(phase corev1.PodPhase, now time.Time) []corev1.PodCondition {
	initialized, ready := true, true
	var unready []string
	for _, c := range s.containers {
		switch {
		case c.init && c.sidecar:
			initialized = initialized && c.started
			ready = ready && c.ready
		case c.init:
			initialized = initialized && c.exited != nil && c.exited.ExitCode == 0
		case !c.ready:
			ready = false
			unready = append(unready, c.spec.Name)
		}
	}
	reason, message := "", ""
	if !ready {
		slices.Sort(unready)
		reason, message = "ContainersNotReady", fmt.Sprintf("containers with unready status: %v", unready)
	}
	if phase == corev1.PodSucceeded {
		reason, message = "PodCompleted", ""
	}
	all := []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodInitialized, Status: boolStatus(initialized)},
		{Type: corev1.ContainersReady, Status: boolStatus(ready), Reason: reason, Message: message},
		{Type: corev1.PodReady, Status: boolStatus(ready), Reason: reason, Message: message},
	}
	for i := range all {
		all[i].LastTransitionTime = metav1.NewTime(now)
		for _, old := range s.previous {
			if old.Type == all[i].Type && old.Status == all[i].Status {
				all[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return all
}

func boolStatus(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}
