package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spillway-dev/spillway/internal/model"
)

// hubObject is what findings about the hub as a whole are about.
var hubObject = model.Object{Kind: "Hub"}

// silent reports whether the hub has no namespace kube-system to tell us about.
func silent(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// identify checks, before a list, that it will come from the hub we know. If
// not, nothing is deleted from now on, until somebody accepts the hub as it is.
// It fails where it can't tell.
func (h *Hub) identify(ctx context.Context) error {
	uid, err := uidOf(ctx, h.core)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case uid == "" || h.frozen != "":
	case h.uid != "" && uid != h.uid:
		h.freeze("it is another hub than before: its namespace kube-system was made anew")
	default:
		h.uid = uid
	}
	return nil
}

// reached notes how far a list is. An older state of the hub than was seen
// before stops deletes too.
func (h *Hub) reached(s *source, c revisionChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen == "" && c.back() {
		h.freeze(fmt.Sprintf("its %s were set back to an older state", s.plural))
	}
	if h.frozen == "" {
		put(h.Mailbox, Bulk, h.Tables.Identities, Resource(s.plural), Identity{UID: h.uid, Revision: max(c.from, c.to)})
	}
}

// freeze stops deletes; h.mu is held.
func (h *Hub) freeze(why string) {
	h.frozen = why
	for _, s := range h.sources {
		s.store.freeze()
	}
	const todo = "; nothing is deleted: if the hub is right, start serve with --accept-hub"
	h.Log.Error("hub: deletes are stopped", "problem", why+todo)
	put(h.Mailbox, Urgent, h.Inputs.Problems, hubObject, model.Findings{
		model.ErrorOf(hubObject, "metadata", model.ReasonHubChanged, "%s", why+todo),
	})
}

// Accept takes the hub as it is now: what it does not have is deleted. It does
// nothing unless deletes are stopped.
func (h *Hub) Accept() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen == "" {
		return
	}
	h.frozen, h.uid = "", ""
	h.Log.Info("hub: accepted as it is")
	for _, s := range h.sources {
		s.store.thaw()
	}
	drop(h.Mailbox, Urgent, h.Inputs.Problems, hubObject)
}
