package demo

import (
	"context"
	"fmt"
)

// tellRestored looks at the whole: all is as it was at first, and no process
// was restarted that nobody killed.
func tellRestored(ctx context.Context, f *fleet, s *scene) error {
	if err := f.quiet(ctx); err != nil {
		return err
	}
	for what, check := range map[string]func(context.Context) error{
		"DNS to send clients to the near edge":    f.dnsNear,
		"the Ingress's status to list both edges": f.ingressListsAll,
		"no findings": f.nothingFound,
	} {
		if err := f.await(ctx, what, check); err != nil {
			return err
		}
	}
	if err := f.followed(ctx); err != nil {
		return err
	}
	if err := f.noRestarts(ctx, s); err != nil {
		return err
	}
	s.say("all as at first, no findings, no process restarted by itself")
	return f.cost(ctx, s)
}

func (f *fleet) nothingFound(ctx context.Context) error {
	found, err := f.admin.Findings(ctx)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%d findings, first: %s %s: %s", len(found), found[0].Object, found[0].Reason, found[0].Message)
	}
	return err
}

// noRestarts counts what the lab restarted though nobody had killed it: a crash
// that is mended within a second would hide otherwise.
func (f *fleet) noRestarts(ctx context.Context, s *scene) error {
	st, err := f.lab.Status(ctx)
	if err != nil {
		return err
	}
	restarts := map[string]int{}
	if st.Hub != nil {
		restarts["hub"] = st.Hub.Process.Restarts
	}
	for _, m := range st.Members {
		restarts["member "+m.Name] = m.API.Process.Restarts
	}
	for _, e := range st.Edges {
		restarts["edge "+e.Name] = e.Process.Restarts
	}
	all := 0
	for _, n := range restarts {
		all += n
	}
	s.set("restarts", int64(all))
	if all > 0 {
		return fmt.Errorf("restarted by themselves: %v (logs: %s)", restarts, f.path("logs"))
	}
	return nil
}

// cost keeps what the control plane has cost since its last start.
func (f *fleet) cost(ctx context.Context, s *scene) error {
	m, err := f.admin.metrics(ctx)
	if err != nil {
		return err
	}
	s.set("serve_memory_bytes", int64(m["process_resident_memory_bytes"]))
	s.set("serve_cpu_ms", int64(m["process_cpu_seconds_total"]*1000))
	return nil
}
