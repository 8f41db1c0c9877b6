package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// A hub may have many keys of certificates that nothing refers to. Once it is known what
// does they are dropped as they come, unread. When an object refers to another Secret the
// hub is asked for that one, and the object waits for it, as for members: see asks.

// certificates are Secrets of type kubernetes.io/tls: of all namespaces, or of some, each
// of which is listed and watched alone, so that no more rights are needed.
func (h *Hub) certificates(core *rest.RESTClient) (out []*source) {
	namespaces := h.SecretNamespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		s := newStore(h.Mailbox, func(o metav1.Object) []fact {
			k, v := ingest.Secret(o.(*corev1.Secret))
			return []fact{row[model.SecretID, model.Certificate]{h.Inputs.Certificates, k, v}}
		}, nil)
		list := func() runtime.Object { return &corev1.SecretList{} }
		of := &source{resource: resource{client: core, plural: "secrets", namespace: namespace, fields: selectType(string(corev1.SecretTypeTLS)), list: list}, store: s}
		vault := vault{of, h.asked}
		s.about = func(o metav1.Object) topic { return secretID(o) }
		s.wanted = func(t topic) bool { return h.secrets.has(t.(model.SecretID)) }
		s.answered = func(t topic, number uint64) { h.secretAsks.answered(t.(model.SecretID), vault, number) }
		h.vaults, out = append(h.vaults, vault), append(out, of)
	}
	return out
}

func secretID(o metav1.Object) model.SecretID {
	return model.SecretID{Workspace: string(ingest.Workspace(o)), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// vault is where Secrets are read of all namespaces, or of one.
type vault struct {
	*source
	asked chan<- struct{} // there are questions
}

func (v vault) holds(id model.SecretID) bool {
	return v.namespace == "" || v.namespace == id.Namespace
}

// ask is that of a witness.
func (v vault) ask(id model.SecretID, number uint64, alone bool) (open, here bool) {
	if !v.holds(id) {
		return false, false
	}
	running, _ := v.state()
	return v.store.ask(id, number, alone), running
}

// poke is that of a witness.
func (v vault) poke() {
	select {
	case v.asked <- struct{}{}:
	default:
	}
}

// need has Secrets be read that an object refers to, which waits for them.
func (h *Hub) need(ids []model.SecretID, w *waiter) {
	if more := h.secrets.add(ids); len(more) > 0 {
		begin(h.secretAsks, more, h.vaults, false)
	}
	h.secretAsks.await(ids, w)
}

// ReadSecrets has Secrets be read that something refers to.
func (h *Hub) ReadSecrets(ids []model.SecretID) { h.need(ids, newWaiter(func() {})) }

// LimitSecrets has no Secrets be read but these, and what else something refers to.
func (h *Hub) LimitSecrets(ids []model.SecretID) {
	h.secrets.add(ids)
	h.secrets.limit()
	for _, v := range h.vaults {
		v.store.sweep(func(of fact) bool {
			r, ok := of.(row[model.SecretID, model.Certificate])
			return !ok || h.secrets.has(r.k)
		})
	}
}

// SpareSecret has a Secret be read no more to which nothing refers, and reports whether it
// is so: an object that names it may be on its way.
func (h *Hub) SpareSecret(id model.SecretID) bool {
	if !h.secrets.drop(id) {
		return false
	}
	h.secretAsks.forget(id)
	for _, v := range h.vaults {
		if v.holds(id) {
			v.store.shed(nameIn(id.Workspace, id.Namespace, id.Name), id)
		}
	}
	return true
}

// secretsIn are the Secrets that facts of an object refer to.
func secretsIn(facts []fact) (out []model.SecretID) {
	for _, f := range facts {
		switch f := f.(type) {
		case row[model.Object, model.Root]:
			out = append(out, model.SecretsOf(f.v.TLS)...)
		case row[model.GatewayID, model.GatewaySpec]:
			out = append(out, f.v.Secrets()...)
		case row[model.Object, model.ListenerSetSpec]:
			out = append(out, model.ListenerSecrets(f.v.Listeners)...)
		}
	}
	return out
}

// answers asks the hub what it is to be asked, until ctx ends.
func (h *Hub) answers(ctx context.Context) {
	delay := backoff
	for {
		var again <-chan time.Time
		if h.answer(unlogged(ctx)) == nil {
			delay = backoff
		} else {
			again = time.After(delay.Step())
		}
		select {
		case <-ctx.Done():
			return
		case <-h.asked:
		case <-again:
		}
	}
}

// answer asks the questions that there are.
func (h *Hub) answer(ctx context.Context) (err error) {
	for _, v := range h.vaults {
		questions := v.store.questions(v.part)
		if len(questions) > mostQuestions {
			v.again()
			continue
		}
		for t, q := range questions {
			if bad := v.learn(ctx, t.(model.SecretID), q); bad != nil {
				err = bad
			}
		}
	}
	return err
}

// learn asks for a Secret. What a server says that was asked after the Secret was wanted
// is not older than what its watch brought before. A list of one needs no other right than
// the watch does.
func (v vault) learn(ctx context.Context, id model.SecretID, q *question) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	o := metav1.ListOptions{FieldSelector: v.fields + "," + fields.OneTermEqualSelector("metadata.name", id.Name).String()}
	var list corev1.SecretList
	err := v.client.Get().Namespace(id.Namespace).Resource(v.plural).VersionedParams(&o, metav1.ParameterCodec).MaxRetries(0).Do(v.counted(ctx)).Into(&list)
	if err == nil && list.ResourceVersion == "" {
		err = errNoList
	}
	if err != nil {
		return fmt.Errorf("reading Secret %s: %w", id, err)
	}
	var objects []*seen
	for i := range list.Items {
		d, err := v.store.take(&list.Items[i], v.part, false)
		if err != nil {
			return err
		}
		if d.of == topic(id) { // whatever the server understood
			objects = append(objects, d)
		}
	}
	v.share().met(v.store.answer(id, q, objects))
	return nil
}
