package syncer

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/syncer/syncertest"
)

// history is a random one: what is wanted changes, others edit and delete
// leaves and make objects of their names, and the syncer ends at some request
// and another one begins.
type history struct {
	t     *testing.T
	m     *member
	rand  *rand.Rand
	pause func() // lets what was begun go on
	pace  pace
	names []string
	log   []string

	wants map[Key]*Leaf
	run   *run
	die   atomic.Int64 // requests until the syncer ends; less than 0: it does not
}

func newHistory(t *testing.T, m *member, seed uint64, pause func()) *history {
	h := &history{t: t, m: m, rand: rand.New(rand.NewPCG(seed, 0)), pause: pause, wants: map[Key]*Leaf{}}
	for i := range 6 {
		h.names = append(h.names, fmt.Sprintf("a-%d", i))
	}
	h.names = append(h.names, "adopted-0", "adopted-1")
	return h
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// start begins a syncer that knows all wants, and ends it at a request or later.
func (h *history) start() { h.begin(int64(h.rand.IntN(40)) - 10) }

// begin is start; with less than 1 the syncer lives.
func (h *history) begin(requests int64) {
	if h.run != nil {
		h.run.end()
	}
	h.die.Store(requests)
	h.note("start, dies at %d", h.die.Load())
	h.run = h.m.run(func(r *run) {
		r.before = func(*http.Request) {
			if h.die.Add(-1) == 0 {
				r.cancel()
			}
		}
		if h.pace != (pace{}) {
			r.pace = h.pace
		}
		for key, leaf := range h.wants {
			r.Want(key, leaf)
		}
		r.Complete()
	}, configMaps)
}

func (h *history) key() Key { return h.m.key(configMaps, h.names[h.rand.IntN(len(h.names))]) }

// some is one of a few contents.
func (h *history) some() map[string]any {
	data := map[string]any{"v": fmt.Sprint(h.rand.IntN(3))}
	if h.rand.IntN(2) == 0 {
		data["more"] = "x"
	}
	return data
}

func (h *history) must(err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		h.t.Fatal(err)
	}
}

// step is something that happens.
func (h *history) step() {
	ctx, key, in := context.Background(), h.key(), h.m.in(configMaps)
	patch := func(p string) {
		h.note("patch %s %s", key.Name, p)
		_, err := in.Patch(ctx, key.Name, types.MergePatchType, []byte(p), metav1.PatchOptions{FieldManager: "somebody"})
		h.must(err)
	}
	switch h.rand.IntN(14) {
	case 0, 1, 2, 3:
		_, leaf := h.m.configMap(key.Name, h.some())
		leaf.Adopt = strings.HasPrefix(key.Name, "adopted")
		h.wants[key] = leaf
		h.note("want %s %v", key.Name, leaf.Object.Object["data"])
		h.run.Want(key, leaf)
	case 4:
		delete(h.wants, key)
		h.note("want no %s", key.Name)
		h.run.Want(key, nil)
	case 5:
		patch(`{"data":{"v":"theirs"}}`)
	case 6:
		patch(`{"data":{"v":"0"},"metadata":{"annotations":{"theirs":"yes"}}}`)
	case 7:
		patch(`{"metadata":{"labels":{"` + v1alpha1.LabelRootUID + `":null},"annotations":{"` + v1alpha1.AnnotationApplied + `":"x"}}}`)
	case 8:
		h.note("delete %s", key.Name)
		h.must(in.Delete(ctx, key.Name, metav1.DeleteOptions{}))
	case 9:
		labels := map[string]any{}
		if h.rand.IntN(3) == 0 {
			labels[v1alpha1.LabelHub] = "another"
		}
		h.note("foreign %s %v", key.Name, labels)
		_, err := in.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": key.Name, "labels": labels}, "data": map[string]any{"v": "foreign", "other": "1"}}}, metav1.CreateOptions{FieldManager: "somebody"})
		h.must(err)
	case 10:
		patch(`{"metadata":{"labels":{"` + v1alpha1.LabelHub + `":null}}}`)
	case 11, 12:
		h.start()
	case 13:
		h.pause()
	}
	if h.rand.IntN(3) == 0 {
		h.pause()
	}
}

// objects are those of the member, without what the server keeps about them.
func (h *history) objects() map[string]*unstructured.Unstructured {
	list, err := h.m.in(configMaps).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		if o := &list.Items[i]; slices.Contains(h.names, o.GetName()) {
			out[o.GetName()] = o
		}
	}
	return out
}

// wrong is how the member differs from what is wanted; nil: it does not.
func (h *history) wrong() error {
	objects := h.objects()
	for _, name := range h.names {
		key := h.m.key(configMaps, name)
		have, leaf := objects[name], h.wants[key]
		switch of := ownerOf(have, h.m.hub); {
		case leaf == nil && of == ours:
			return fmt.Errorf("%s is an orphan", name)
		case leaf == nil:
		case of == nobody:
			return fmt.Errorf("%s is missing", name)
		case of == another:
			if s := h.run.state(key); s.Reason != OfAnotherHub {
				return fmt.Errorf("%s is another hub's, and told to be %+v", name, s)
			}
		case of == foreign && !leaf.Adopt:
			if s := h.run.state(key); s.Reason != Foreign {
				return fmt.Errorf("%s is foreign, and told to be %+v", name, s)
			}
		case of == foreign:
			return fmt.Errorf("%s is not adopted", name)
		default:
			want, err := wishOf(key, leaf, h.m.hub)
			if err != nil {
				return err
			}
			if d := lacks(want.body(), have); len(d) > 0 {
				return fmt.Errorf("%s lacks %v", name, d)
			}
			if d, _ := at(have, "data").(map[string]any); d["more"] != nil && leaf.Object.Object["data"].(map[string]any)["more"] == nil {
				return fmt.Errorf("%s has a field that is wanted no more", name)
			}
			if s := h.run.state(key); s.Reason != Applied && s.Reason != Contested || s.UID != have.GetUID() {
				return fmt.Errorf("%s is there, and told to be %+v", name, s)
			}
		}
	}
	return nil
}

// forgotten reports what is kept for nothing.
func (h *history) forgotten() error {
	h.run.Syncer.mu.Lock()
	defer h.run.Syncer.mu.Unlock()
	for key := range h.run.leaves {
		if h.wants[key] == nil {
			return fmt.Errorf("%s is still known", key.Name)
		}
	}
	if h.run.Syncer.there > len(h.wants) || len(h.run.surplus) > 0 {
		return fmt.Errorf("%d are there, %d too many", h.run.Syncer.there, len(h.run.surplus))
	}
	return nil
}

// foreigners are the objects that are not ours.
func (h *history) foreigners() map[string]string {
	out := map[string]string{}
	for name, o := range h.objects() {
		if ownerOf(o, h.m.hub) != ours && !strings.HasPrefix(name, "adopted") {
			out[name] = string(o.GetUID()) + " " + o.GetResourceVersion()
		}
	}
	return out
}

// play is all of a history, up to an end at which everything is as it should be.
func (h *history) play(steps int, until func(what string, check func() error)) {
	h.start()
	for range steps {
		h.step()
	}
	foreign := h.foreigners()
	h.begin(-1)
	h.run.Consent()
	until("all as wanted", h.wrong)
	until("nothing kept", h.forgotten)
	for name, was := range foreign {
		if is := h.foreigners()[name]; is != was {
			h.t.Errorf("%s was %s and is %s", name, was, is)
		}
	}
	before := h.objects()
	h.begin(-1)
	until("all as wanted, again", h.wrong)
	h.pause()
	if w := h.run.writes(); len(w) > 0 {
		h.t.Errorf("at rest, after a start: %v", w)
	}
	if after := h.objects(); !reflect.DeepEqual(before, after) {
		h.t.Errorf("at rest, something changed: %v", slices.Sorted(maps.Keys(after)))
	}
	h.run.end()
	if h.t.Failed() {
		h.t.Logf("history:\n%s", strings.Join(h.log, "\n"))
	}
}

// TestRandomHistories against memory: as many as there is time for, at least 200; 50 where
// it is short, which is under the race detector.
func TestRandomHistories(t *testing.T) {
	begin, least := time.Now(), uint64(200)
	if testing.Short() {
		least = 50
	}
	seeds := uint64(0)
	for ; seeds < least || time.Since(begin) < 15*time.Second && !testing.Short(); seeds++ {
		ok := t.Run(fmt.Sprint(seeds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, f := fakeMember(t)
				if seeds%2 == 1 {
					m.claims = claiming // and so what is not ours is read, too
				}
				h := newHistory(t, m, seeds, func() { time.Sleep(time.Second); synctest.Wait() })
				h.pace = usual
				rough := h.rand.IntN(2) == 0
				fails := rand.New(rand.NewPCG(seeds, 1))
				f.Answer = func(q *http.Request) int {
					if q.Header.Get(syncertest.HubHeader) == "" || !rough || fails.IntN(8) > 0 {
						return 0
					}
					return []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusForbidden, http.StatusGone}[fails.IntN(4)]
				}
				h.play(60, func(what string, check func() error) {
					f.Mu.Lock()
					f.Answer = nil
					f.Mu.Unlock()
					time.Sleep(30 * time.Minute)
					synctest.Wait()
					if err := check(); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				})
				if len(f.Wrong) > 0 {
					t.Errorf("written over what is not ours: %v", f.Wrong)
				}
			})
		})
		if !ok {
			return
		}
	}
	t.Logf("%d histories", seeds)
}

// TestRandomHistoriesForReal is the same against a real API server.
func TestRandomHistoriesForReal(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := realMember(t)
			if seed%2 == 1 {
				m.claims = claiming
			}
			h := newHistory(t, m, seed, nil)
			h.pause = func() { h.run.settle() }
			h.play(40, func(what string, check func() error) { h.run.until(what, check) })
		})
	}
}
