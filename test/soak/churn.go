package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// churn is what happens to pods. At any time each workload has pods in two
// members at least.
var churn = []op{
	{name: "scale", weight: 3, do: (*soak).scale},
	{name: "rolling restart", weight: 1, do: (*soak).restart},
	{name: "delete a pod", weight: 2, do: (*soak).deletePod},
}

func (s *soak) settled(ctx context.Context, c *user.Cluster, workload string) error {
	return await(ctx, fmt.Sprintf("the pods of %s in %s", workload, c.Name), func(ctx context.Context) error { return c.Settled(ctx, namespace, workload) })
}

func (s *soak) patchDeployment(ctx context.Context, c *user.Cluster, workload string, spec object) error {
	return await(ctx, c.Name+" to take a patch", func(ctx context.Context) error {
		return c.Patch(ctx, "Deployment", namespace, workload, object{"spec": spec})
	})
}

// scale scales a Deployment to another size and, from nothing, back.
func (s *soak) scale(ctx context.Context, rng *rand.Rand) (string, error) {
	c, workload := one(rng, s.members), one(rng, workloads)
	sizes := []int{rng.IntN(4)}
	if sizes[0] == 0 {
		sizes = append(sizes, replicas)
	}
	what := fmt.Sprintf("%s in %s to %v", workload, c.Name, sizes)
	for _, n := range sizes {
		if err := s.patchDeployment(ctx, c, workload, object{"replicas": n}); err != nil {
			return what, err
		}
		if err := s.settled(ctx, c, workload); err != nil {
			return what, err
		}
	}
	return what, nil
}

// restart replaces all pods, as `kubectl rollout restart` does.
func (s *soak) restart(ctx context.Context, rng *rand.Rand) (string, error) {
	c, workload := one(rng, s.members), one(rng, workloads)
	what := workload + " in " + c.Name
	at := object{"kubectl.kubernetes.io/restartedAt": time.Now().UTC().Format(time.RFC3339Nano)}
	if err := s.patchDeployment(ctx, c, workload, object{"template": object{"metadata": object{"annotations": at}}}); err != nil {
		return what, err
	}
	return what, s.settled(ctx, c, workload)
}

// deletePod deletes one, which ends in peace and is replaced.
func (s *soak) deletePod(ctx context.Context, rng *rand.Rand) (string, error) {
	c, workload := one(rng, s.members), one(rng, workloads)
	var pods []string
	if err := await(ctx, "the pods of "+c.Name, func(ctx context.Context) (err error) {
		if pods, err = c.Pods(ctx, namespace, workload); err == nil && len(pods) == 0 {
			err = errors.New("there are none")
		}
		return err
	}); err != nil {
		return "", err
	}
	pod := one(rng, pods)
	what := pod + " in " + c.Name
	if err := erase(ctx, c, "Pod", namespace, pod); err != nil {
		return what, err
	}
	return what, s.settled(ctx, c, workload)
}

// faults are what happens to control planes. While some of them last, nobody
// tells the edges about pods.
var faults = []op{
	{name: "kill serve", weight: 4, blind: true, do: (*soak).killServe},
	{name: "replace serve", weight: 3, blind: true, do: (*soak).replaceServe},
	{name: "pause serve", weight: 2, blind: true, do: (*soak).pauseServe},
	{name: "kill hub", weight: 2, do: (*soak).killHub},
	{name: "kill serve and hub", weight: 1, blind: true, do: (*soak).killBoth},
	{name: "pause hub", weight: 1, do: (*soak).pauseHub},
	{name: "pause member API", weight: 1, blind: true, do: (*soak).pauseAPI},
	{name: "cut member API", weight: 3, blind: true, do: (*soak).cutAPI},
}

// written is the time after which the control plane has its checkpoint on disk.
const written = time.Second

// outage is how long something stays away: most are short.
func outage(rng *rand.Rand) time.Duration {
	return time.Duration(rng.Int64N(int64(time.Second))) * time.Duration(1+rng.IntN(5))
}

// killServe kills the control plane and starts it some time later.
func (s *soak) killServe(ctx context.Context, rng *rand.Rand) (string, error) {
	away := outage(rng)
	what := "for " + away.Round(time.Millisecond).String()
	if err := s.serve.Kill(); err != nil {
		return what, err
	}
	user.Rest(ctx, away)
	with, err := s.serveAgain(ctx)
	return what + " " + with, err
}

// replaceServe ends the control plane in peace and starts it at once, as a new
// release does.
func (s *soak) replaceServe(ctx context.Context, _ *rand.Rand) (string, error) {
	if err := s.serve.Stop(); err != nil {
		return "", err
	}
	return s.serveAgain(ctx)
}

// pauseTime is how long a process stands still.
const pauseTime = 10 * time.Second

// pauseServe has the control plane stand still, as one on a machine that sleeps.
// For it no time has passed, and nothing has gone.
func (s *soak) pauseServe(ctx context.Context, _ *rand.Rand) (string, error) {
	what := "for " + pauseTime.String()
	if err := s.serve.Pause(); err != nil {
		return what, err
	}
	user.Rest(ctx, pauseTime)
	if err := s.serve.Resume(); err != nil {
		return what, err
	}
	return what, await(ctx, "the edges to be in step with a control plane that goes on", s.inSync)
}

// serveAgain starts the control plane; with two versions, the one that did not
// run.
func (s *soak) serveAgain(ctx context.Context) (with string, err error) {
	if s.options.other != "" {
		with = "with " + s.alternate()
	}
	if err := s.serve.Start(); err != nil {
		return with, err
	}
	return with, await(ctx, "the edges to be in step with a new control plane", s.inSync)
}

func (s *soak) killHub(ctx context.Context, rng *rand.Rand) (string, error) {
	away := outage(rng)
	what := "for " + away.Round(time.Millisecond).String()
	if err := s.lab.KillHub(ctx); err != nil {
		return what, err
	}
	user.Rest(ctx, away)
	return what, s.lab.StartHub(ctx)
}

// killBoth starts a control plane without a hub, which comes later. The hub
// dies first: what a control plane has not yet written down when it is killed,
// and cannot ask for, it can't know.
func (s *soak) killBoth(ctx context.Context, rng *rand.Rand) (string, error) {
	s.held.Lock()
	defer s.held.Unlock()
	if err := s.lab.KillHub(ctx); err != nil {
		return "", err
	}
	user.Rest(ctx, written)
	what, err := s.killServe(ctx, rng)
	if err != nil {
		return what, err
	}
	return what, s.lab.StartHub(ctx)
}

func (s *soak) cutAPI(ctx context.Context, rng *rand.Rand) (string, error) {
	c, away, mode := one(rng, s.members), 2*outage(rng), one(rng, []lab.Mode{lab.ModeDrop, lab.ModeRefuse})
	what := fmt.Sprintf("of %s, %s, for %s", c.Name, mode, away.Round(time.Millisecond))
	if err := s.lab.Cut(ctx, c.Name, lab.PartAPI, mode); err != nil {
		return what, err
	}
	user.Rest(ctx, away)
	return what, s.healed(ctx, c.Name)
}

// healed heals a member and waits until it is followed again.
func (s *soak) healed(ctx context.Context, member string) error {
	if err := s.lab.Heal(ctx, member); err != nil {
		return err
	}
	return await(ctx, member+" to be followed again", func(ctx context.Context) error { return s.connected(ctx, member) })
}

// pauseHub has the hub stand still: it takes connections, and answers nothing.
func (s *soak) pauseHub(ctx context.Context, _ *rand.Rand) (string, error) {
	what := "for " + pauseTime.String()
	if err := s.lab.Pause(ctx, "hub"); err != nil {
		return what, err
	}
	user.Rest(ctx, pauseTime)
	return what, s.lab.StartHub(ctx)
}

// pauseAPI is the same of a member's API server.
func (s *soak) pauseAPI(ctx context.Context, rng *rand.Rand) (string, error) {
	c := one(rng, s.members)
	what := fmt.Sprintf("of %s for %s", c.Name, pauseTime)
	if err := s.lab.Pause(ctx, c.Name); err != nil {
		return what, err
	}
	user.Rest(ctx, pauseTime)
	return what, s.healed(ctx, c.Name)
}
