// Command hostile runs the soak's fleet under its load and edits, and attacks
// it from outside with all that the threat model has, at once: a stolen
// identity of an edge, a hostile member, a tenant with ten thousand broken
// objects, anonymous clients of DNS (see attacks). Meanwhile it measures how
// long endpoint changes of somebody else take, and compares that with the same
// before, when the attackers only needed their CPU. What must hold is in judge;
// docs/hostile.md says more.
//
// The last line of its output is the figures, as JSON. Exit code 1: something
// did not hold; 3: this machine can't run a lab.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
)

// options are the flags. The last three are of the children alone.
type options struct {
	duration time.Duration
	baseline time.Duration
	rate     int
	seed     uint64
	dir      string
	binary   string
	soak     string
	out      string
	only     string
	untimed  bool

	as   string
	cage string
}

func flags() options {
	var o options
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long the attack goes on, at least")
	flag.DurationVar(&o.baseline, "baseline", 30*time.Second, "how long endpoint changes are measured before it")
	flag.IntVar(&o.rate, "rate", 200, "requests a second of the soak")
	flag.Uint64Var(&o.seed, "seed", 0, "of the soak; 0: a random one, which it prints")
	flag.StringVar(&o.dir, "dir", ".lab", "folder of the lab: kubeconfigs, certificates, logs")
	flag.StringVar(&o.binary, "binary", "bin/spillway", "spillway itself")
	flag.StringVar(&o.soak, "soak", "build/soak", "the soak (go build -o build/soak ./test/soak)")
	flag.StringVar(&o.out, "out", "build/hostile.json", "file to write the figures to; the soak's are in soak.json beside it")
	flag.StringVar(&o.only, "only", "", "attackers that take part, by a part of their names, such as \"identity\"; empty: all")
	flag.BoolVar(&o.untimed, "untimed", false, "do not judge how long endpoint changes took: for a machine that is too small or that others use")
	flag.StringVar(&o.as, "as", "", "what a child of this command does")
	flag.StringVar(&o.cage, "cage", "", "cgroup.procs of the cgroup that a child goes into")
	flag.Parse()
	return o
}

func main() {
	o := flags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := do(ctx, o)
	stop()
	if err != nil {
		if !errors.Is(err, errFailed) {
			fmt.Fprintf(os.Stderr, "hostile: %v (logs: %s/logs)\n", err, o.dir)
		}
		os.Exit(exitCode(err))
	}
}

// do is what this process is for: a child's work, or the run.
func do(ctx context.Context, o options) error {
	switch o.as {
	case "":
		return run(ctx, o)
	case asSpinner, asAttackers:
		if err := enter(o.cage); err != nil {
			return err
		}
	}
	if o.as == asSpinner {
		spin(ctx)
		return nil
	}
	return attackLab(ctx, o)
}

// errFailed is a run whose output says all.
var errFailed = errors.New("something does not hold")

// errUnable is a soak that told why it can't run here.
var errUnable = errors.New("this machine can't run a lab")

func exitCode(err error) int {
	if errors.Is(err, errUnable) {
		err = &lab.Unsupported{}
	}
	return lab.ExitCode(err)
}
