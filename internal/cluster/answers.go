package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/spillway-dev/spillway/internal/model"
)

const (
	// mostQuestions are asked one by one; more are answered by a list of all.
	mostQuestions = 32
	// answerTimeout bounds one.
	answerTimeout = 10 * time.Second
)

// served is the Service that a Service or EndpointSlice is of, as most members call it.
func (m *member) served(o metav1.Object) topic {
	n := o.GetName()
	if _, is := o.(*corev1.Service); !is {
		n = o.GetLabels()[discoveryv1.LabelServiceName]
	}
	return m.called(model.ServiceOf(o.GetNamespace(), n))
}

// wants reports whether a Service is read. Who has none is told so.
func (m *member) wants(t topic) bool {
	s := t.(model.Service)
	return s.Name() == "" || m.reads.has(s)
}

// exported are the Services of exports.
func (m *member) exported(facts []fact) (out []model.Service) {
	for _, f := range facts {
		if r, ok := f.(row[model.MemberService, model.Export]); ok {
			out = append(out, m.called(r.k.Service))
		}
	}
	return out
}

// ask has the member be asked about a Service that something refers to now. It reports
// whether the member may have it, and whether it can answer now.
func (m *member) ask(s model.Service, number uint64, alone bool) (open, here bool) {
	n, ok := m.nameOf(s)
	if !ok {
		return false, false
	}
	if !m.slices.reads(n.namespace) {
		return false, false // it is not there, for us
	}
	if there, known := m.services.give(n); known && !there {
		return false, false
	}
	if !m.slices.ask(s, number, alone) {
		return false, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return true, m.source.Connected || !m.met
}

// poke says that there may be questions.
func (m *member) poke() {
	select {
	case m.asked <- struct{}{}:
	default:
	}
}

// answers asks the member what it is to be asked, until ctx ends.
func (l *link) answers(ctx context.Context) {
	delay := backoff
	for {
		var again <-chan time.Time
		if l.answer(unlogged(ctx)) == nil {
			delay = backoff
		} else {
			again = time.After(delay.Step())
		}
		select {
		case <-ctx.Done():
			return
		case <-l.member.asked:
		case <-again:
		}
	}
}

// answer asks the questions that there are.
func (l *link) answer(ctx context.Context) (err error) {
	for _, of := range l.sources {
		if of.store != l.member.slices {
			continue
		}
		questions := of.store.questions(of.part)
		if len(questions) > mostQuestions {
			of.again()
			continue
		}
		for s, q := range questions {
			if bad := l.member.learn(ctx, of, s.(model.Service), q); bad != nil {
				err = bad
			}
		}
	}
	return err
}

// learn asks for the EndpointSlices of a Service. What a server says that was asked
// after the Service was wanted is not older than what its watch brought before.
func (m *member) learn(ctx context.Context, of *source, s model.Service, q *question) error {
	tell := func(objects []*seen) { of.share().met(of.store.answer(s, q, objects)) }
	n, ok := m.nameOf(s)
	if !ok {
		tell(nil)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	o := metav1.ListOptions{LabelSelector: labels.Set{discoveryv1.LabelServiceName: n.name}.String()}
	var list discoveryv1.EndpointSliceList
	err := of.client.Get().Namespace(n.namespace).Resource(of.plural).VersionedParams(&o, metav1.ParameterCodec).MaxRetries(0).Do(of.counted(ctx)).Into(&list)
	if err == nil && list.ResourceVersion == "" {
		err = errNoList
	}
	if of.mayHide && apierrors.IsForbidden(err) {
		tell(nil)
		return nil
	}
	if err != nil {
		return err
	}
	objects := make([]*seen, 0, len(list.Items))
	for i := range list.Items {
		d, err := of.store.take(&list.Items[i], of.part, false)
		if err != nil {
			return err
		}
		if d.of == s { // whatever the server understood
			objects = append(objects, d)
		}
	}
	tell(objects)
	return nil
}
