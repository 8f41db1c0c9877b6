package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/spillway-dev/spillway/internal/checkpoint"
)

// hour is the age of the checkpoint that is put back.
const hour = time.Hour

// hour keeps a copy of the checkpoint, an hour old, and has happen meanwhile what
// makes it wrong: a host goes and another comes; the member that the first proxy
// asks has another pod, one farther away lost a Service; the one whose
// API will be lost has a pod more.
func (f *fleet) hour(ctx context.Context) error {
	before, since := host{"before", "others", hosts[2].in}, host{"since", "others", hosts[2].in}
	if err := write(ctx, f.hub, ingressObject(before, "/")); err != nil {
		return err
	}
	if err := await(ctx, "a host to be served", func(ctx context.Context) error {
		return answers(ctx, f.edges[0], before.url(), f.nearest(before, f.edges[0]))
	}); err != nil {
		return err
	}
	if err := errors.Join(f.serve.Stop(), os.RemoveAll(f.copied()), os.CopyFS(f.copied(), os.DirFS(f.state())), checkpoint.Age(f.copied(), hour), f.serve.Start()); err != nil {
		return err
	}
	nearest, far := f.members[len(f.edges)], f.members[len(f.members)-1]
	if err := errors.Join(
		write(ctx, f.hub, ingressObject(since, "/")), f.hub.Delete(ctx, "Ingress", namespace, before.name),
		far.Delete(ctx, "Service", namespace, "others"), write(ctx, f.members[0], deploymentObject(2)),
	); err != nil {
		return err
	}
	pods, err := nearest.Pods(ctx, namespace, workload)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := nearest.Delete(ctx, "Pod", namespace, pod); err != nil {
			return err
		}
	}
	f.hosts = append(f.hosts[:len(f.hosts):len(f.hosts)], since)
	return await(ctx, "the hour to be over", func(ctx context.Context) error {
		return errors.Join(
			f.whole(ctx), f.members[0].Settled(ctx, namespace, workload), nearest.Settled(ctx, namespace, workload),
			status(ctx, f.edges[0], before.url(), http.StatusNotFound),
		)
	})
}

// goBack puts the copy of the checkpoint back.
func (f *fleet) goBack() error {
	if err := f.blank(); err != nil {
		return err
	}
	f.serve.Args = append(f.serve.Args, "--state-dir", f.state())
	return errors.Join(os.RemoveAll(f.state()), os.CopyFS(f.state(), os.DirFS(f.copied())))
}
