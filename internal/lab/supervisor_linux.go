package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/spillway-dev/spillway/internal/files"
	"github.com/spillway-dev/spillway/internal/lab/netns"
)

const supervisorName = "lab-supervisor"

// supervisor is the process that everything of a lab is a child of.
type supervisor struct {
	spec   Spec
	log    *slog.Logger
	events *json.Encoder
	began  time.Time
	ports  ports

	host   *netns.Space
	router *netns.Router

	mu      sync.Mutex // guards what follows; and order of faults
	says    sync.Mutex // guards events
	writes  sync.Mutex // guards lab.json and ending
	ending  bool
	hub     *api
	hubUp   chan struct{} // closed once hub is set for good
	members []*member
	edges   []*edge
	places  []*place
	stop    context.CancelFunc
	asked   []net.Conn // for the end of the lab: open until that of the process
}

func supervisorCommand() *cobra.Command {
	return &cobra.Command{
		Use:    supervisorName,
		Short:  "Run a lab for the process that started this one",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return supervise(cmd.Context()) },
	}
}

// supervise runs a lab until its parent closes the pipe or a signal comes.
func supervise(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	parent, events := os.NewFile(specFD, "spec"), os.NewFile(eventFD, "events")
	if parent == nil || events == nil {
		return errors.New("this command is for `spillway lab up` only")
	}
	s := &supervisor{log: slog.New(slog.NewTextHandler(os.Stderr, nil)), events: json.NewEncoder(events), began: time.Now(), stop: stop, hubUp: make(chan struct{})}
	in := json.NewDecoder(parent)
	if err := in.Decode(&s.spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, parent); stop() }()
	err := s.run(ctx)
	runtime.KeepAlive(s) // a connection that nothing leads to any more is closed
	var no *Unsupported
	switch {
	case errors.As(err, &no):
		s.say(event{Unsupported: no.Reason})
	case err != nil:
		s.say(event{Failed: err.Error()})
	}
	return err
}

func (s *supervisor) say(e event) {
	s.says.Lock()
	defer s.says.Unlock()
	_ = s.events.Encode(e)
}

// step does one step of the start and reports its begin and its end.
func (s *supervisor) step(name string, do func() error) error {
	s.say(event{Step: &Step{Name: name, Elapsed: time.Since(s.began)}})
	if err := do(); err != nil {
		return err
	}
	s.say(event{Step: &Step{Name: name, Done: true, Elapsed: time.Since(s.began)}})
	return nil
}

// run is the life of a lab.
func (s *supervisor) run(ctx context.Context) error {
	unlock, err := s.takeDir()
	if err != nil {
		return err
	}
	defer unlock()
	defer s.clean()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return diagnose(fmt.Errorf("make mounts private: %w", err))
	}
	if err := s.step("network", s.makeNetwork); err != nil {
		return err
	}
	stop, err := s.serveNames()
	if err != nil {
		return err
	}
	defer stop()
	// Pods end first, then what they and the users talk to.
	fleet, end := context.WithCancel(context.Background())
	var kubelets sync.WaitGroup
	defer s.closeAll()
	defer kubelets.Wait()
	defer end()
	if err := s.boot(ctx, fleet, &kubelets); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ctl, err := s.serveControl(ctx)
	if err != nil {
		return err
	}
	defer ctl.close()
	s.save()
	s.say(event{Ready: true})
	s.log.Info("ready", "dir", s.spec.Dir, "elapsed", time.Since(s.began))
	<-ctx.Done()
	return nil
}

func (s *supervisor) makeNetwork() (err error) {
	if s.host, err = netns.Host(); err != nil {
		return err
	}
	s.router, err = netns.NewRouter("router")
	return diagnose(err)
}

// boot starts everything, in parallel where it can.
func (s *supervisor) boot(ctx, fleet context.Context, kubelets *sync.WaitGroup) error {
	if err := writePKI(PKI{Dir: filepath.Join(s.spec.Dir, "pki")}, s.spec.Edges); err != nil {
		return err
	}
	if err := files.Replace(placesFile(s.spec.Dir), []byte(s.spec.placesText()), 0o644); err != nil {
		return err
	}
	all, starting := errgroup.WithContext(ctx)
	s.mu.Lock()
	s.members = make([]*member, len(s.spec.Members))
	s.edges, s.places = make([]*edge, len(s.spec.Edges)), make([]*place, 2*len(s.spec.Edges))
	s.mu.Unlock()
	if s.spec.Hub {
		all.Go(func() error { return s.step("hub", func() error { return s.startHub(starting) }) })
	}
	for i := range s.spec.Members {
		all.Go(func() error {
			return s.step("member "+s.spec.Members[i].Name, func() error { return s.startMember(starting, fleet, i, kubelets) })
		})
	}
	all.Go(func() error { return s.startEdges(starting) })
	if err := all.Wait(); err != nil {
		return err
	}
	if s.spec.HubInPlaces {
		if err := s.hubInPlaces(); err != nil {
			return err
		}
	}
	if err := s.openMembers(ctx); err != nil {
		return err
	}
	if !s.spec.Register {
		return nil
	}
	return s.step("register", func() error { return registerFleet(ctx, s.spec, s.hub.direct) })
}

// openMembers keeps members apart that are, and waits for the ingress controllers of
// members and opens these to clients: all places are there now.
func (s *supervisor) openMembers(ctx context.Context) error {
	s.mu.Lock()
	err := s.applyCuts()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	all, starting := errgroup.WithContext(ctx)
	for _, m := range s.members {
		if m.spec.Contour {
			all.Go(func() error {
				return s.step("contour "+m.spec.Name, func() error { return s.awaitContour(starting, m) })
			})
		}
	}
	return all.Wait()
}

// closeAll ends what runs, most important first: what is not ended here ends
// with this process.
func (s *supervisor) closeAll() {
	s.writes.Lock()
	s.ending = true
	s.writes.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all sync.WaitGroup
	for _, e := range s.edges {
		if e != nil {
			all.Go(e.close)
		}
	}
	for _, m := range s.members {
		if m != nil && m.gate != nil {
			all.Go(m.gate.close)
		}
		if m != nil && m.api != s.hub {
			all.Go(m.api.close)
		}
	}
	if s.hub != nil {
		all.Go(s.hub.close)
	}
	all.Wait()
	for _, p := range s.places {
		if p != nil {
			p.close()
		}
	}
}

// takeDir makes the folder, locks it and removes what an earlier lab left.
func (s *supervisor) takeDir() (unlock func(), err error) {
	for _, d := range []string{s.spec.Dir, s.path("members"), s.path("logs"), s.path("pki")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	lock, err := files.Lock(s.path("lock"))
	switch {
	case errors.Is(err, files.ErrHeld):
		return nil, fmt.Errorf("a lab runs in %s already: end it with `spillway lab down --dir %s`, or use another --dir", s.spec.Dir, s.spec.Dir)
	case err != nil:
		return nil, err
	}
	s.clean()
	if err := emptyLogs(s.path("logs")); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	for _, d := range []string{"data", "run", "run/root"} {
		if err := os.MkdirAll(s.path(d), 0o700); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
	return func() { lock.Close() }, nil
}

// emptyLogs removes an earlier lab's logs but for the open one, which it cuts.
func emptyLogs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Name() == logName {
			err = os.Truncate(path, 0)
		} else {
			err = os.RemoveAll(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clean removes what is worth nothing without the lab. Logs, kubeconfigs and
// certificates stay until the next one.
func (s *supervisor) clean() {
	for _, d := range []string{"data", "run", "lab.json", placesName, socketName} {
		if err := os.RemoveAll(s.path(d)); err != nil {
			s.log.Warn("not removed", "path", d, "error", err)
		}
	}
}

func (s *supervisor) path(parts ...string) string {
	return filepath.Join(append([]string{s.spec.Dir}, parts...)...)
}

// save writes lab.json.
func (s *supervisor) save() {
	s.writes.Lock()
	defer s.writes.Unlock()
	if s.ending {
		return
	}
	b, err := json.MarshalIndent(s.status(), "", "  ")
	if err == nil {
		err = files.Replace(s.path("lab.json"), append(b, '\n'), 0o600)
	}
	if err != nil {
		s.log.Warn("lab.json not written", "error", err)
	}
}
