package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/app"
	"github.com/spillway-dev/spillway/internal/checkpoint"
	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/hds"
)

// world is a fleet: what the hub and the members have, the proxies with what
// they hold, and a control plane that may be replaced by a new one.
type world struct {
	now     time.Time
	objects int64 // made so far: the age of the next one
	hub     map[string]apiObjects
	members map[model.Member]*memberAPI
	proxies map[string]*proxy   // by EDGE/NODE
	paths   map[path]bool       // whether canaries of a member answer, as seen from an edge
	owners  map[string]string   // address to SERVICE@MEMBER, also of pods that are gone
	speak   []routetest.Backend // pods of these speak TLS, or not; others take whatever comes
	plane   *app.Offline

	dir   string // of checkpoints
	state *checkpoint.Store
	runs  int
}

// apiObjects are what an API server has of a kind, by namespace and name.
type apiObjects map[string]metav1.Object

func (a apiObjects) list() []metav1.Object {
	out := make([]metav1.Object, 0, len(a))
	for _, name := range slices.Sorted(maps.Keys(a)) {
		out = append(out, a[name])
	}
	return out
}

// path leads from an edge to a member.
type path struct {
	edge   model.Edge
	member model.Member
}

// epoch is when worlds begin.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// newWorld is an empty fleet, whose control plane has listed the hub. dir is
// for its checkpoints.
func newWorld(dir string) (*world, error) {
	w := &world{
		now: epoch, hub: map[string]apiObjects{}, members: map[model.Member]*memberAPI{}, proxies: map[string]*proxy{}, paths: map[path]bool{}, owners: map[string]string{}, dir: dir,
	}
	return w, w.start("")
}

// start runs a new control plane, from a checkpoint if one is named.
func (w *world) start(from string) error {
	w.runs++
	dir := filepath.Join(w.dir, fmt.Sprint("run", w.runs))
	if from != "" {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(w.dir, from))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var err error
	if w.state, err = checkpoint.Open(checkpoint.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now }}); err != nil {
		return err
	}
	w.plane = app.NewOffline(app.OfflineOptions{
		Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler), State: w.state,
	})
	return w.listHub()
}

// stop ends the control plane: its streams break, and its checkpoint is written.
func (w *world) stop() {
	for _, p := range w.proxies {
		p.stream = nil
	}
	over, end := context.WithCancel(context.Background())
	end()
	w.state.Run(over)
}

// restart replaces the control plane by one that goes on from a checkpoint:
// "", none; "last", what the one before left; "saved", what save kept.
func (w *world) restart(from string) error {
	w.stop()
	switch from {
	case "":
		for _, m := range w.members {
			m.forget()
		}
	case "last":
		from = fmt.Sprint("run", w.runs)
	}
	return w.start(from)
}

// save keeps the checkpoint as it is now.
func (w *world) save() error {
	if err := w.state.Flush(); err != nil {
		return err
	}
	kept := filepath.Join(w.dir, "saved")
	if err := os.RemoveAll(kept); err != nil {
		return err
	}
	return os.CopyFS(kept, os.DirFS(filepath.Join(w.dir, fmt.Sprint("run", w.runs))))
}

// listHub has the control plane list the hub, and then every member that answers.
func (w *world) listHub() error {
	for _, kind := range w.plane.Feed.Kinds() {
		if err := w.plane.Feed.List(kind, w.hub[kind].list()); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.members)) {
		if err := w.contact(name); err != nil {
			return err
		}
	}
	return nil
}

// put makes or changes an object of the hub.
func (w *world) put(kind string, o metav1.Object) error {
	name := o.GetNamespace() + "/" + o.GetName()
	if w.hub[kind] == nil {
		w.hub[kind] = apiObjects{}
	}
	if old := w.hub[kind][name]; old != nil {
		o.SetCreationTimestamp(old.GetCreationTimestamp())
		o.SetGeneration(old.GetGeneration() + 1)
	} else {
		w.objects++
		o.SetCreationTimestamp(metav1.NewTime(epoch.Add(time.Duration(w.objects) * time.Second)))
		o.SetGeneration(1)
	}
	w.hub[kind][name] = o
	return w.plane.Feed.Put(kind, o)
}

func (w *world) remove(kind, name string) error {
	o := w.hub[kind][name]
	if o == nil {
		return fmt.Errorf("there is no %s %s", kind, name)
	}
	delete(w.hub[kind], name)
	return w.plane.Feed.Delete(kind, o)
}

// restless is how many rounds of messages a world may take to come to rest.
const restless = 200

// settle lets everybody say all that they have to say, without time passing.
func (w *world) settle() error {
	for range restless {
		w.plane.Turn()
		moved, err := w.converse()
		if err != nil {
			return err
		}
		written, err := w.writeStatuses()
		if err != nil {
			return err
		}
		if !moved && !written {
			return nil
		}
	}
	return errors.New("the world does not come to rest")
}

// stride is how far the clock moves before everybody looks at it; in a long
// time, further.
const stride = 500 * time.Millisecond

// tick lets time pass.
func (w *world) tick(d time.Duration) error {
	long := max(stride, d/200)
	for d > 0 {
		step := min(d, long)
		w.now, d = w.now.Add(step), d-step
		w.report()
		if err := w.settle(); err != nil {
			return err
		}
	}
	return nil
}

// report has every connected proxy say which canaries answer.
func (w *world) report() {
	for _, name := range slices.Sorted(maps.Keys(w.proxies)) {
		p := w.proxies[name]
		if p.stream == nil {
			continue
		}
		r := hds.Report{Proxy: p.id, At: w.now}
		for at, up := range w.paths {
			if at.edge == model.Edge(p.id.Edge) {
				r.Canaries = append(r.Canaries, hds.CanaryHealth{Canary: hds.Canary{Member: string(at.member)}, Healthy: up})
			}
		}
		w.plane.Reported(r)
	}
}
