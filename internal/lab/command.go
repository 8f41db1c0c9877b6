package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/lab/echo"
)

// Commands are `lab` with its subcommands, and the hidden commands that a lab
// runs of its own binary.
func Commands() []*cobra.Command {
	return append([]*cobra.Command{Command(), echo.Command()}, hiddenCommands()...)
}

// Command is `lab` with its subcommands. A program that has it needs the rest
// of Commands too.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Run a fleet on this machine: hub, members, edges, faults",
		Long: `Run a fleet on one Linux machine, without containers or root: a hub and
members, each a real API server; pods as local processes with addresses of
their own; edges as real Envoys; and faults to try things with.

Exit code 3: this machine can't run a lab; the message says why and what to do.`,
	}
	var dir string
	cmd.PersistentFlags().StringVar(&dir, "dir", defaultDir, "folder of the lab")
	cmd.AddCommand(upCommand(&dir), downCommand(&dir), statusCommand(&dir), execCommand(&dir),
		cutCommand(&dir), healCommand(&dir), killEdgeCommand(&dir), killMemberCommand(&dir), killHubCommand(&dir), pauseCommand(&dir))
	return cmd
}

func upCommand(dir *string) *cobra.Command {
	spec := DefaultSpec()
	var images []string
	var file string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a fleet and keep it until Ctrl-C",
		Args:  cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			for _, image := range images {
				if name, program, ok := strings.Cut(image, "="); !ok || name == "" || program == "" {
					return fmt.Errorf("--image %q: use NAME=PATH, such as shop/web=./web", image)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromFile(file, &spec); err != nil {
				return err
			}
			spec.Dir = *dir
			if spec.Images == nil {
				spec.Images = map[string]string{}
			}
			for _, image := range images {
				name, program, _ := strings.Cut(image, "=")
				spec.Images[name] = program
			}
			return up(cmd.Context(), spec, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "spec", "", "YAML file with the fleet (default: hub, eu-1, eu-2, us-1, edges eu and us)")
	f.StringVar(&spec.Envoy, "envoy", "", "Envoy to run as edges (default: $SPILLWAY_ENVOY, .tools/envoy, PATH)")
	f.StringArrayVar(&images, "image", nil, "NAME=PATH: the program that stands for an image; may be repeated")
	f.IntVar(&spec.XDSPort, "xds-port", defaultXDSPort, "where spillway serve listens for edges, on 127.0.0.1")
	f.IntVar(&spec.DNSPort, "dns-port", defaultDNSPort, "where spillway serve answers DNS, on 127.0.0.1")
	f.StringVar(&spec.Loopback, "loopback", defaultLoopback, "part of the loopback for edges' addresses; labs beside each other need their own")
	f.BoolVar(&spec.Register, "register", true, "tell the hub about members, edges and the class")
	return cmd
}

// fromFile reads a spec; what the file leaves out stays.
func fromFile(path string, spec *Spec) error {
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(b, spec); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func up(ctx context.Context, spec Spec, out, errs io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := Start(ctx, spec, func(s Step) {
		word := "starts"
		if s.Done {
			word = "ready"
		}
		fmt.Fprintf(errs, "%6.1fs  %-16s %s\n", s.Elapsed.Seconds(), s.Name, word)
	})
	if ctx.Err() != nil {
		return errors.New("ended before the lab was ready")
	}
	if err != nil {
		return err
	}
	st, err := l.Status(ctx)
	if err == nil {
		err = printStatus(out, st)
	}
	if err != nil {
		return joinClose(err, l)
	}
	fmt.Fprintf(out, "\nReady. Ctrl-C ends it. Kubeconfigs and logs are in %s; `spillway lab --help` lists the faults.\n", l.Dir())
	if l.spec.Hub && l.spec.Register {
		fmt.Fprintf(out, "Its control plane: %s\n", l.spec.invitation(spec.Dir))
	}
	select {
	case <-ctx.Done():
	case <-l.Done():
		if l.proc.inPeace() {
			fmt.Fprintln(errs, "ended by `spillway lab down`")
			return l.Close()
		}
		return fmt.Errorf("the lab has ended: see %s/logs/lab.log", l.Dir())
	}
	fmt.Fprintln(errs, "ending")
	return l.Close()
}

func joinClose(err error, l *Lab) error {
	if cerr := l.Close(); cerr != nil {
		return fmt.Errorf("%w; and %w", err, cerr)
	}
	return err
}

func downCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "End the lab that runs in --dir", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := Open(cmd.Context(), *dir)
			if err != nil {
				return err
			}
			return l.Close()
		},
	}
}

func statusCommand(dir *string) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "status", Short: "Show members, edges, places, their faults and costs", Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if format != "table" && format != "json" {
				return fmt.Errorf("--output %q: use table or json", format)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, *dir, func(ctx context.Context, l *Lab) error {
				st, err := l.Status(ctx)
				if err != nil {
					return err
				}
				if format == "table" {
					return printStatus(cmd.OutOrStdout(), st)
				}
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(st)
			})
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}

// with runs f on the lab in dir.
func with(cmd *cobra.Command, dir string, f func(context.Context, *Lab) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := Open(ctx, dir)
	if err != nil {
		return err
	}
	return f(ctx, l)
}

func cutCommand(dir *string) *cobra.Command {
	mode := string(ModeDrop)
	cmd := &cobra.Command{
		Use:   "cut MEMBER api|data|both",
		Short: "Cut a member's API, its data path or both (or: cut hub api)",
		Args:  cobra.ExactArgs(2),
		PreRunE: func(_ *cobra.Command, args []string) error {
			switch {
			case !slices.Contains([]Part{PartAPI, PartData, PartBoth}, Part(args[1])):
				return fmt.Errorf("there is no %q to cut: use api, data or both", args[1])
			case !slices.Contains([]Mode{ModeDrop, ModeRefuse}, Mode(mode)):
				return fmt.Errorf("--mode %q: use drop or refuse", mode)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, *dir, func(ctx context.Context, l *Lab) error { return l.Cut(ctx, args[0], Part(args[1]), Mode(mode)) })
		},
	}
	cmd.Flags().StringVar(&mode, "mode", mode, "drop: answer nothing; refuse: reset connections")
	return cmd
}

func healCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "heal NAME|all", Short: "Undo every fault of a member, an edge, the hub or all", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, *dir, func(ctx context.Context, l *Lab) error { return l.Heal(ctx, args[0]) })
		},
	}
}

func killEdgeCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "kill-edge EDGE", Short: "Kill an edge's Envoy; it stays dead until `heal EDGE`", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, *dir, func(ctx context.Context, l *Lab) error { return l.KillEdge(ctx, args[0]) })
		},
	}
}

func killMemberCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "kill-member MEMBER", Short: "Kill a member's API server; it stays dead until `heal MEMBER`", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, *dir, func(ctx context.Context, l *Lab) error { return l.KillMember(ctx, args[0]) })
		},
	}
}

func killHubCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "kill-hub", Short: "Kill the hub; it stays dead until `heal hub`", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, *dir, func(ctx context.Context, l *Lab) error { return l.KillHub(ctx) })
		},
	}
}

func pauseCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "pause MEMBER|hub", Short: "Have an API server stand still (SIGSTOP) until `heal`", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, *dir, func(ctx context.Context, l *Lab) error { return l.Pause(ctx, args[0]) })
		},
	}
}

func execCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "exec PLACE -- COMMAND…",
		Short: "Run a command as a client in a place; its exit code is kept",
		Long: `Run a command as a client in a place. Its exit code is kept: 127 says that
there is no such command, 126 that it can't be run, as of a shell.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := Open(cmd.Context(), *dir)
			if err != nil {
				return err
			}
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer signal.Stop(signals)
			// The command decides what a signal means: the context is not ended by one.
			code, err := l.exec(context.WithoutCancel(cmd.Context()), args[0], os.Stdin, os.Stdout, os.Stderr, signals, args[1:])
			if err == nil && code != 0 {
				os.Exit(code) // silently, as the command itself would
			}
			return err
		},
	}
}

func printStatus(out io.Writer, st Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, c)
		}
		fmt.Fprintln(w)
	}
	row("WHAT", "WHERE", "STATE", "FAULT", "RESTARTS", "PID", "MEMORY", "CPU")
	line := func(what, where, fault string, p ProcessStatus) {
		state := "runs"
		switch {
		case !p.Running:
			state = "dead"
		case p.Paused:
			state = "paused"
		}
		row(what, where, state, orDash(fault), p.Restarts, p.PID, fmt.Sprintf("%d MB", p.Usage.RSS>>20), fmt.Sprintf("%.1fs", p.Usage.CPU))
	}
	if st.Hub != nil {
		line("hub", st.Hub.Server, fault("api", st.Hub.Cut), st.Hub.Process)
	}
	for _, m := range st.Members {
		faults := strings.TrimSpace(fault("api", m.API.Cut) + " " + fault("data", m.DataCut))
		where := fmt.Sprintf("%s  %s  %d pods", m.API.Server, m.PodNet, m.Pods)
		if m.Ingress != "" {
			where += fmt.Sprintf("  ingress %s:%d,%d", m.Ingress, defaultHTTP, defaultHTTPS)
		}
		line("member "+m.Name, where, faults, m.API.Process)
	}
	for _, e := range st.Edges {
		line("edge "+e.Name, fmt.Sprintf("%s:%d,%d  admin %s", e.Address, e.HTTPPort, e.HTTPSPort, e.Admin), "", e.Process)
	}
	line("lab", fmt.Sprintf("up %s", time.Since(st.Started).Round(time.Second)), "", ProcessStatus{Running: true, PID: st.PID, Usage: st.Usage})
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range st.Places {
		if p.Client {
			fmt.Fprintf(out, "place %s (clients near edge %s): `spillway lab exec %s -- COMMAND`; the host sees it as %s\n", p.Name, p.Edge, p.Name, p.Source)
		}
	}
	return nil
}

func fault(part string, m Mode) string {
	if m == "" {
		return ""
	}
	return part + "=" + string(m)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
