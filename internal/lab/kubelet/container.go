package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	firstCrash = 500 * time.Millisecond // back-off after the first crash; a cluster's is 10 s
	maxCrash   = 30 * time.Second
	soundAfter = time.Minute // a run of this length resets the back-off
)

// initialize runs the init containers in order, each to its success, and
// starts sidecars on the way. It returns one channel per sidecar, closed when
// that has ended; nil when the pod ended or failed before.
func (w *worker) initialize(ctx context.Context) []<-chan struct{} {
	sidecars := []<-chan struct{}{}
	for _, c := range w.state.containers {
		switch {
		case !c.init:
			continue
		case c.sidecar:
			done := make(chan struct{})
			sidecars = append(sidecars, done)
			go func() { defer close(done); w.keep(ctx, c) }()
			select { // the next waits until it has started
			case <-c.up:
			case <-w.stop:
			case <-ctx.Done():
			}
		default:
			w.keep(ctx, c)
			if w.stopping() || ctx.Err() != nil || w.failedInit(c) {
				w.box.Close()
				for _, done := range sidecars {
					<-done
				}
				return nil
			}
		}
	}
	return sidecars
}

func (w *worker) failedInit(c *containerState) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.exited == nil || c.exited.ExitCode != 0
}

// keep runs a container, again and again as its restart policy says, until it
// is done for good or the pod shall end.
func (w *worker) keep(ctx context.Context, c *containerState) {
	backoff := firstCrash
	for {
		program, reason, err := w.program(ctx, c.spec)
		var run Running
		if err == nil {
			reason = "RunContainerError"
			run, err = w.box.Start(program)
		}
		if err != nil {
			w.change(func(*podState) {
				c.running, c.exited = nil, nil
				c.waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: err.Error()}
			})
			w.event(corev1.EventTypeWarning, "Failed", err.Error())
			if !w.pause(ctx, backoff) {
				return
			}
			backoff = min(2*backoff, maxCrash)
			continue
		}
		began := time.Now()
		w.attend(ctx, c, run, program)
		if w.stopping() || ctx.Err() != nil || !w.again(c) {
			return
		}
		if time.Since(began) > soundAfter {
			backoff = firstCrash
		}
		w.crashed(c, backoff)
		if !w.pause(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, maxCrash)
	}
}

// program is what the container runs, or the reason why it can't.
func (w *worker) program(ctx context.Context, c *corev1.Container) (p Program, reason string, err error) {
	argv, err := w.k.Images.Argv(c.Image, c.Command, c.Args)
	if err != nil {
		return p, "ErrImagePull", err
	}
	env, err := w.scope().environment(ctx, c)
	if err != nil {
		return p, "CreateContainerConfigError", err
	}
	m, err := mounts(c, w.mounted)
	if err != nil {
		return p, "CreateContainerConfigError", err
	}
	vars := variables{value: map[string]string{}}
	for _, e := range c.Env {
		for _, set := range env {
			if name := e.Name + "="; len(set) >= len(name) && set[:len(name)] == name {
				vars.set(e.Name, set[len(name):])
			}
		}
	}
	for i := range argv {
		argv[i] = expand(argv[i], vars.value)
	}
	log := filepath.Join(w.k.LogDir, logName(w.pod.Namespace, w.pod.Name, c.Name))
	return Program{Name: c.Name, Argv: argv, Env: env, Dir: c.WorkingDir, Mounts: m, Log: log}, "", nil
}

// attend watches a running container to its end and records that.
func (w *worker) attend(ctx context.Context, c *containerState, run Running, program Program) {
	began := metav1.Now()
	w.change(func(*podState) {
		c.waiting, c.exited, c.running = nil, nil, &began
		c.began = true
		if c.spec.StartupProbe == nil {
			c.markStarted()
		}
	})
	w.event(corev1.EventTypeNormal, "Started", "Started container "+c.spec.Name)
	pctx, cancel := context.WithCancel(ctx)
	unhealthy := make(chan error, 2)
	var probes sync.WaitGroup
	probes.Go(func() { w.probe(pctx, c, program, unhealthy) })
	select {
	case <-run.Done():
	case <-ctx.Done():
		run.Kill()
	case <-w.stop:
		w.event(corev1.EventTypeNormal, "Killing", "Stopping container "+c.spec.Name)
		w.finish(ctx, c.spec, run, program)
	case err := <-unhealthy:
		w.event(corev1.EventTypeWarning, "Unhealthy", err.Error())
		w.restart(ctx, run)
	}
	<-run.Done()
	cancel()
	probes.Wait()
	exit := run.Exit()
	w.change(func(*podState) {
		reason := "Completed"
		if exit.Code != 0 {
			reason = "Error"
		}
		c.running, c.ready, c.started = nil, false, false
		c.exited = &corev1.ContainerStateTerminated{
			ExitCode: int32(exit.Code), Signal: int32(exit.Signal), Reason: reason, StartedAt: began, FinishedAt: metav1.Now(),
		}
	})
}

// finish ends one container of a pod that shall end: hook, SIGTERM, and SIGKILL
// when the grace is over.
func (w *worker) finish(ctx context.Context, c *corev1.Container, run Running, program Program) {
	graceful, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-run.Done():
			cancel()
		case <-graceful.Done():
		}
	}()
	go func() { w.hook(graceful, c, program); run.Terminate() }()
	w.killTime(graceful)
	run.Kill()
}

// restart ends a container that is not well, with the pod's own grace.
func (w *worker) restart(ctx context.Context, run Running) {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if w.pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *w.pod.Spec.TerminationGracePeriodSeconds
	}
	run.Terminate()
	t := time.NewTimer(time.Duration(grace) * time.Second)
	defer t.Stop()
	select {
	case <-run.Done():
	case <-t.C:
	case <-ctx.Done():
	}
	run.Kill()
}

// hook runs the container's preStop hook.
func (w *worker) hook(ctx context.Context, c *corev1.Container, program Program) {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return
	}
	err := error(nil)
	switch h := c.Lifecycle.PreStop; {
	case h.Sleep != nil:
		sleep(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
	case h.Exec != nil:
		err = w.exec(ctx, program, h.Exec.Command)
	case h.HTTPGet != nil:
		err = w.prober(c, program).http(ctx, h.HTTPGet)
	}
	if err != nil && ctx.Err() == nil {
		w.event(corev1.EventTypeWarning, "FailedPreStopHook", err.Error())
	}
}

// again decides about a restart, by the policy of the pod and the container.
func (w *worker) again(c *containerState) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := c.exited.ExitCode != 0
	switch {
	case c.init && c.sidecar:
		return true
	case c.init:
		return failed && w.state.policy != corev1.RestartPolicyNever
	case w.state.policy == corev1.RestartPolicyAlways:
		return true
	}
	return failed && w.state.policy == corev1.RestartPolicyOnFailure
}

func (w *worker) crashed(c *containerState, backoff time.Duration) {
	w.change(func(*podState) {
		c.last, c.exited = c.exited, nil
		c.restarts++
		c.waiting = &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s restarting failed container %s", backoff, c.spec.Name),
		}
	})
	w.event(corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Container %s exited with code %d; restart in %s", c.spec.Name, c.last.ExitCode, backoff))
}

func (w *worker) prober(c *corev1.Container, program Program) prober {
	return prober{box: w.box, addr: w.addrs[0], c: c, exec: func(ctx context.Context, argv []string) error { return w.exec(ctx, program, argv) }}
}

// exec runs a command in the pod as the container would, to its end.
func (w *worker) exec(ctx context.Context, program Program, argv []string) error {
	program.Argv, program.Log = argv, ""
	run, err := w.box.Start(program)
	if err != nil {
		return err
	}
	select {
	case <-run.Done():
	case <-ctx.Done():
		run.Kill()
		<-run.Done()
		return ctx.Err()
	}
	if e := run.Exit(); e.Code != 0 {
		return fmt.Errorf("%s: exit code %d", argv[0], e.Code)
	}
	return nil
}

// probe runs the container's probes until ctx ends. Readiness goes on while
// the pod ends, so that "serving" stays true; liveness does not.
func (w *worker) probe(ctx context.Context, c *containerState, program Program, unhealthy chan<- error) {
	p := w.prober(c.spec, program)
	fail := func(what string, err error) {
		if !w.stopping() {
			unhealthy <- fmt.Errorf("%s probe failed: %w", what, err)
		}
	}
	if c.spec.StartupProbe != nil {
		sctx, done := context.WithCancel(ctx)
		ok := false
		p.watch(sctx, c.spec.StartupProbe, func(good bool, err error) {
			ok = good
			if !good {
				fail("Startup", err)
			}
			done()
		})
		done()
		if !ok {
			return
		}
		w.change(func(*podState) { c.markStarted() })
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if c.spec.ReadinessProbe != nil {
		wg.Go(func() {
			p.watch(ctx, c.spec.ReadinessProbe, func(good bool, err error) {
				if !good && !w.stopping() {
					w.event(corev1.EventTypeWarning, "Unhealthy", "Readiness probe failed: "+err.Error())
				}
				w.change(func(*podState) { c.ready = good && c.running != nil })
			})
		})
	}
	if c.spec.LivenessProbe != nil {
		wg.Go(func() {
			p.watch(ctx, c.spec.LivenessProbe, func(good bool, err error) {
				if !good {
					fail("Liveness", err)
				}
			})
		})
	}
}
