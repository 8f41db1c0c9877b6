package syncer

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/ingest"
)

// What is kept of a member that has more with our mark than was ever wanted, because
// somebody there makes such objects: what is wanted, and so much besides.
const (
	most        = 5000     // objects that nobody wants; as some go, others are read
	maxStatuses = 64 << 20 // bytes of all statuses; one more counts as oversized
	pageSize    = 500      // of a list
)

// relist is how long a watch is believed. A member whose store was set back to an
// older state may go on with versions that were used before: its watch tells nothing
// of what is otherwise now.
const relist = 15 * time.Minute

// Count is how many leaves are in a member.
type Count struct {
	Leaves int  // that have our mark
	Known  bool // it is known: all kinds are listed, or not there
	Over   int  // of Leaves, those that are not kept, since they are too many
	Clear  bool // there is none, none is on its way, and all that is wanted is known
	Unread bool // there are more objects that are not ours and ask for hosts than are kept
}

// countAll counts. The caller has the lock.
func (s *Syncer) countAll() Count {
	c := Count{Leaves: s.present, Known: true}
	for _, k := range s.kinds {
		c.Over += k.over
		c.Unread = c.Unread || k.unread
		c.Known = c.Known && (k.listed || apierrors.IsNotFound(k.err))
	}
	c.Leaves += c.Over
	c.Clear = c.Known && s.complete && c.Over == 0 && len(s.leaves) == 0
	return c
}

// strays are the leaves that nobody wants. The caller has the lock.
func (s *Syncer) strays() int { return len(s.leaves) - s.wants }

// full reports whether an object is one too many. The caller has the lock.
func (s *Syncer) full(key Key) bool { return s.leaves[key] == nil && s.strays() >= most }

// pages lists what has our mark, as the member has it now, and keeps no more of it
// than is needed. Where others ask for hosts, too, it is one list of both: a second watch
// would cost a member that has few of either more than what it tells.
func (k *kind) pages(ctx context.Context) (*unstructured.UnstructuredList, error) {
	var all *unstructured.UnstructuredList
	o := metav1.ListOptions{LabelSelector: k.selector(), Limit: pageSize}
	found, strays := 0, 0
	next := listed{others: map[named]*claimant{}, fronts: map[string]ingest.Asking{}}
	for {
		page, err := k.syncer.Client.Resource(k.resource).List(ctx, o)
		if err != nil {
			return nil, err
		}
		items := page.Items
		if all == nil {
			all, page.Items = page, nil
		}
		found += k.take(all, items, &strays, &next)
		if o.Continue = page.GetContinue(); o.Continue == "" {
			break
		}
	}
	all.SetContinue("")
	all.SetRemainingItemCount(nil)
	k.syncer.mu.Lock()
	defer k.syncer.mu.Unlock()
	k.found, k.next = found, next
	return all, nil
}

// take takes over what is needed of a page, and returns how many are too many.
func (k *kind) take(into *unstructured.UnstructuredList, page []unstructured.Unstructured, strays *int, next *listed) (over int) {
	s := k.syncer
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range page {
		o := &page[i]
		if k.claims.Of != nil {
			next.find(k, o)
		}
		if !k.ours(o) {
			continue
		}
		if e := s.leaves[k.key(o)]; e != nil && e.want != nil {
			into.Items = append(into.Items, *o)
			continue
		}
		if *strays++; *strays > most {
			over++
			continue
		}
		into.Items = append(into.Items, *husk(o))
	}
	return over
}

// husk is what is needed of an object that nobody wants.
func husk(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetAPIVersion(o.GetAPIVersion())
	out.SetKind(o.GetKind())
	out.SetNamespace(o.GetNamespace())
	out.SetName(o.GetName())
	out.SetUID(o.GetUID())
	out.SetResourceVersion(o.GetResourceVersion())
	out.SetGeneration(o.GetGeneration())
	out.SetDeletionTimestamp(o.GetDeletionTimestamp())
	if class, there, _ := unstructured.NestedString(o.Object, "spec", "ingressClassName"); there {
		out.Object["spec"] = map[string]any{"ingressClassName": class}
	}
	if status, there := o.Object["status"]; there {
		out.Object["status"] = status
	}
	return out
}
