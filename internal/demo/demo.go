package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/examples"
	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// pause between chapters, for readers.
const pause = 1500 * time.Millisecond

// mendPatience is how long it may take to undo what a failed chapter left.
const mendPatience = 3 * time.Minute

// Run tells the story on a fleet of its own and ends it. An error says which
// chapters failed, or why there is no fleet; the report is written in any case.
func Run(ctx context.Context, opts Options, out io.Writer) error {
	if err := opts.prepare(); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f := &fleet{opts: opts, tell: newTeller(out, opts.Check), began: time.Now(), end: end}
	report := newReport(f.began)
	err := f.run(ctx, report)
	end(nil)
	err = errors.Join(err, f.close())
	report.OK = err == nil
	if err != nil {
		report.Error = err.Error()
	}
	return errors.Join(err, report.write(opts.Report))
}

// errInterrupted says that the user ended the story.
var errInterrupted = errors.New("interrupted before the end of the story")

func (f *fleet) run(ctx context.Context, report *Report) error {
	failed, err := f.chapters(ctx, f.opts.plot.story, report)
	if err == nil && !f.opts.Check {
		f.invite()
		<-ctx.Done()
		err = ended(ctx)
	}
	if errors.Is(err, errInterrupted) && !f.opts.Check {
		err = nil // as the user wished
	}
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("what must hold did not in %s; logs are in %s", strings.Join(failed, ", "), f.shown("logs"))
	}
	return nil
}

// ended is why ctx has ended.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errInterrupted
}

// chapters tells a story and returns the names of the chapters that failed. An
// error ends it early.
func (f *fleet) chapters(ctx context.Context, story []chapter, report *Report) (failed []string, err error) {
	for _, c := range story {
		if !c.vital && len(f.opts.Only) > 0 && !slices.Contains(f.opts.Only, c.name) {
			continue
		}
		f.tell.begin(c)
		step, s, err := f.one(ctx, c)
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		report.add(c, step)
		var unable *lab.Unsupported
		if errors.As(err, &unable) {
			return nil, unable
		}
		f.tell.result(step)
		if c.vital && err != nil {
			return nil, fmt.Errorf("%s: %w; logs are in %s", c.name, err, f.shown("logs"))
		}
		if err != nil {
			failed = append(failed, c.name)
			f.mend(ctx, s)
		}
		if !f.opts.Check {
			user.Rest(ctx, pause)
		}
	}
	return failed, nil
}

// one tells a chapter.
func (f *fleet) one(ctx context.Context, c chapter) (Step, *scene, error) {
	s, began := &scene{}, time.Now()
	err := c.tell(ctx, f, s)
	step := Step{Name: c.name, OK: err == nil, TookMS: time.Since(began).Milliseconds(), Figures: s.figures, Detail: s.text()}
	if err != nil {
		step.Error = err.Error()
	}
	return step, s, err
}

// mend undoes what a failed chapter left behind, as well as it can: the next
// chapter says if something is still missing.
func (f *fleet) mend(ctx context.Context, s *scene) {
	ctx, cancel := context.WithTimeout(ctx, mendPatience)
	defer cancel()
	errs := []error{f.lab.Heal(ctx, "all"), f.serve.Start(), f.opts.plot.again(f, ctx)}
	for _, m := range f.opts.plot.members {
		errs = append(errs, apply(ctx, f.members[m], examples.ShopMember))
	}
	if s.undo != nil {
		errs = append(errs, s.undo(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		f.tell.line("     not mended: %v", err)
	}
}

// shopAgain writes what a chapter may have taken away.
func (f *fleet) shopAgain(ctx context.Context) error {
	return f.await(ctx, "the hub to take examples/shop.yaml", func(ctx context.Context) error { return apply(ctx, f.hub, examples.Shop) })
}

// edgeTries is what there is to try with edges.
func (f *fleet) edgeTries() [][2]string {
	http, https := f.lab.EdgePorts("eu")
	return [][2]string{
		{fmt.Sprintf("curl --resolve %s:%d:%s http://%s:%d/", shopHost, http, f.lab.EdgeAddress("eu"), shopHost, http), "through the edge in Europe"},
		{fmt.Sprintf("curl --resolve %s:%d:%s http://%s:%d/", shopHost, http, f.lab.EdgeAddress("us"), shopHost, http), "through the edge in America"},
		{fmt.Sprintf("curl -k --resolve %s:%d:%s https://%s:%d/", shopHost, https, f.lab.EdgeAddress("eu"), shopHost, https), "over HTTPS"},
		{fmt.Sprintf("dig @127.0.0.1 -p %d %s +short +subnet=%s", f.opts.DNSPort, shopHost, clients["us"].subnet), "what DNS tells clients in America"},
		{fmt.Sprintf("kubectl --kubeconfig %s -n %s get ingress", f.shown("hub.kubeconfig"), namespace), "the status that users see"},
		{fmt.Sprintf("kubectl --kubeconfig %s get members,edges", f.shown("hub.kubeconfig")), "the fleet as the hub knows it"},
		{fmt.Sprintf("kubectl --kubeconfig %s -n %s scale deployment %s --replicas 5", f.shown("members", "eu-1.kubeconfig"), namespace, workload), "more pods in a member"},
		{fmt.Sprintf("%s get plans --admin-address %s", os.Args[0], f.opts.admin()), "who gets which share"},
		{fmt.Sprintf("%s lab --dir %s cut eu-1 data --mode drop", os.Args[0], f.shown()), "break it; `heal eu-1` mends it"},
		{fmt.Sprintf("%s lab --dir %s status", os.Args[0], f.shown()), "all processes and faults"},
	}
}

// invite says what there is to try.
func (f *fleet) invite() {
	tries := f.opts.plot.tries(f)
	widest := 0
	for _, t := range tries {
		widest = max(widest, len(t[0]))
	}
	f.tell.line("\nThe fleet stays up until Ctrl-C. Logs are in %s. Try:", f.shown("logs"))
	for _, t := range tries {
		f.tell.line("  %-*s  # %s", widest, t[0], t[1])
	}
}
