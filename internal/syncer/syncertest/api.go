// Package syncertest is the API server of a member, in memory.
package syncertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// HubHeader is the header of requests in which a test says for which hub they are.
const HubHeader = "X-Test-Hub"

// API is an API server of one kind in memory, as a transport, so that a test may have a
// clock of its own and thousands of runs: versions, preconditions, watches by
// label, and field management by the library of the real one. What is known of
// the real one in other ways is tested against the real one.
type API struct {
	kind   schema.GroupVersionKind
	of     schema.GroupVersionResource
	base   string // of paths
	fields *managedfields.FieldManager

	Mu     sync.Mutex                            // of what follows
	Store  map[string]*unstructured.Unstructured // by namespace/name
	Wrong  []string                              // writes for a hub over what is not its own
	Writes int                                   // that changed something
	Answer func(*http.Request) int               // the code to fail with; 0: do not

	now  int64
	uids int64
	log  []change
	from int64 // versions up to here are not watchable
	open map[*stream]bool
}

type change struct {
	version  int64
	old, new *unstructured.Unstructured
}

// schemeless makes the library work on unstructured objects.
type schemeless struct{}

func (schemeless) Convert(in, out, _ any) error { return errors.New("nothing is converted") }
func (schemeless) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (schemeless) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (schemeless) Default(runtime.Object) {}
func (schemeless) New(k schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k)
	return u, nil
}

// New is an API server of a kind.
func New(kind schema.GroupVersionKind, of schema.GroupVersionResource) *API {
	fields, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), schemeless{}, schemeless{}, schemeless{}, kind, kind.GroupVersion(), "", nil)
	if err != nil {
		panic(err)
	}
	base := "/apis/" + of.Group + "/" + of.Version + "/"
	if of.Group == "" {
		base = "/api/" + of.Version + "/"
	}
	return &API{kind: kind, of: of, base: base, fields: fields, now: 100, Store: map[string]*unstructured.Unstructured{}, open: map[*stream]bool{}}
}

// RoundTrip answers a request.
func (f *API) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Answer != nil {
		if code := f.Answer(r); code != 0 {
			status := apierrors.NewGenericServerResponse(code, r.Method, f.of.GroupResource(), "", "", 0, true).Status()
			status.Message, status.TypeMeta = "as the test wants", metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			return Reply(code, status), nil
		}
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	path := strings.TrimPrefix(r.URL.Path, f.base)
	parts := strings.Split(path, "/") // configmaps, or namespaces/NS/configmaps/NAME
	switch {
	case path == f.of.Resource && r.URL.Query().Get("watch") != "":
		return f.watch(r), nil
	case path == f.of.Resource, len(parts) == 3 && r.Method == http.MethodGet: // there is one namespace
		return f.list(r), nil
	case len(parts) == 3 && r.Method == http.MethodPost:
		return f.post(r, parts[1], body), nil
	case len(parts) == 4 && parts[2] == f.of.Resource:
		return f.one(r, parts[1]+"/"+parts[3], body), nil
	}
	return Failure(apierrors.NewNotFound(f.of.GroupResource(), path)), nil
}

// Reply is an answer.
func Reply(code int, body any) *http.Response {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data))}
}

// Failure is the answer that an error is.
func Failure(err error) *http.Response {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		s = apierrors.NewInternalError(err)
	}
	status := s.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return Reply(int(status.Code), status)
}

func (f *API) list(r *http.Request) *http.Response {
	sel, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": f.kind.GroupVersion().String(), "kind": f.kind.Kind + "List", "metadata": map[string]any{"resourceVersion": strconv.FormatInt(f.now, 10)}}}
	for _, id := range slices.Sorted(maps.Keys(f.Store)) {
		if o := f.Store[id]; sel.Matches(labels.Set(o.GetLabels())) {
			list.Items = append(list.Items, *o.DeepCopy())
		}
	}
	return Reply(http.StatusOK, list.UnstructuredContent())
}

func (f *API) post(r *http.Request, ns string, body []byte) *http.Response {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(body); err != nil {
		return Failure(apierrors.NewBadRequest(err.Error()))
	}
	id := ns + "/" + o.GetName()
	if f.Store[id] != nil {
		return Failure(apierrors.NewAlreadyExists(f.of.GroupResource(), o.GetName()))
	}
	empty, _ := schemeless{}.New(f.kind)
	after, err := f.fields.Update(empty, o, r.URL.Query().Get("fieldManager"))
	if err != nil {
		return Failure(err)
	}
	return f.put(r, id, nil, after)
}

// one answers about one object.
func (f *API) one(r *http.Request, id string, body []byte) *http.Response {
	have := f.Store[id]
	notFound := apierrors.NewNotFound(f.of.GroupResource(), id)
	switch kind := types.PatchType(r.Header.Get("Content-Type")); {
	case r.Method == http.MethodPatch && kind == types.ApplyPatchType:
		return f.apply(r, id, have, body)
	case have == nil:
		return Failure(notFound)
	case r.Method == http.MethodGet:
		return Reply(http.StatusOK, have.Object)
	case r.Method == http.MethodDelete:
		var o metav1.DeleteOptions
		if err := json.Unmarshal(body, &o); err != nil {
			return Failure(apierrors.NewBadRequest(err.Error()))
		}
		if p := o.Preconditions; p != nil && (p.UID != nil && *p.UID != have.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != have.GetResourceVersion()) {
			return Failure(apierrors.NewConflict(f.of.GroupResource(), id, errors.New("precondition")))
		}
		return f.put(r, id, have, nil)
	case r.Method == http.MethodPatch && kind == types.MergePatchType:
		return f.merge(r, id, have, body)
	}
	return Failure(apierrors.NewMethodNotSupported(f.of.GroupResource(), r.Method))
}

func (f *API) apply(r *http.Request, id string, have *unstructured.Unstructured, body []byte) *http.Response {
	patch := &unstructured.Unstructured{}
	if err := patch.UnmarshalJSON(body); err != nil {
		return Failure(apierrors.NewBadRequest(err.Error()))
	}
	live, _ := schemeless{}.New(f.kind)
	if have != nil {
		live = have.DeepCopy()
	}
	after, err := f.fields.Apply(live, patch, r.URL.Query().Get("fieldManager"), r.URL.Query().Get("force") == "true")
	if err != nil {
		return Failure(err)
	}
	if conflict := f.precondition(patch, have); conflict != nil {
		return Failure(conflict)
	}
	return f.put(r, id, have, after)
}

// precondition is what an object says that it changes.
func (f *API) precondition(says, have *unstructured.Unstructured) error {
	uid, version := says.GetUID(), says.GetResourceVersion()
	if have == nil && uid != "" || have != nil && (uid != "" && uid != have.GetUID() || version != "" && version != have.GetResourceVersion()) {
		return apierrors.NewConflict(f.of.GroupResource(), says.GetName(), errors.New("it is another"))
	}
	return nil
}

func (f *API) merge(r *http.Request, id string, have *unstructured.Unstructured, body []byte) *http.Response {
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		return Failure(apierrors.NewBadRequest(err.Error()))
	}
	next := &unstructured.Unstructured{Object: merged(have.DeepCopy().Object, patch)}
	if conflict := f.precondition(next, have); conflict != nil {
		return Failure(conflict)
	}
	after, err := f.fields.Update(have.DeepCopy(), next, r.URL.Query().Get("fieldManager"))
	if err != nil {
		return Failure(err)
	}
	return f.put(r, id, have, after)
}

func merged(into, patch map[string]any) map[string]any {
	if into == nil {
		into = map[string]any{}
	}
	for name, v := range patch {
		switch p := v.(type) {
		case nil:
			delete(into, name)
		case map[string]any:
			m, _ := into[name].(map[string]any)
			into[name] = merged(m, p)
		default:
			into[name] = v
		}
	}
	return into
}

// put stores what came of a write, and tells those who watch.
func (f *API) put(r *http.Request, id string, have *unstructured.Unstructured, after runtime.Object) *http.Response {
	next, _ := after.(*unstructured.Unstructured)
	code := http.StatusOK
	if next != nil {
		next = next.DeepCopy()
		ns, name, _ := strings.Cut(id, "/")
		next.SetNamespace(ns)
		next.SetName(name)
		if have == nil {
			code = http.StatusCreated
			f.uids++
			next.SetUID(types.UID("uid-" + strconv.FormatInt(f.uids, 10)))
		} else {
			next.SetUID(have.GetUID())
			next.SetResourceVersion(have.GetResourceVersion())
			if reflect.DeepEqual(timeless(next), timeless(have)) {
				return Reply(code, have.Object)
			}
		}
	}
	if r.URL.Query().Get("dryRun") != "" {
		return Reply(code, next.Object)
	}
	f.judge(r, have)
	f.now++
	f.Writes++
	if next == nil {
		delete(f.Store, id)
	} else {
		next.SetResourceVersion(strconv.FormatInt(f.now, 10))
		f.Store[id] = next
	}
	f.log = append(f.log, change{f.now, have, next})
	for s := range f.open {
		s.send(f.log[len(f.log)-1])
	}
	if next == nil {
		next = have
	}
	return Reply(code, next.Object)
}

// judge notes writes of a syncer over what is not its own.
func (f *API) judge(r *http.Request, have *unstructured.Unstructured) {
	hub := r.Header.Get(HubHeader)
	if hub == "" || have == nil || have.GetLabels()[v1alpha1.LabelHub] == hub || strings.HasPrefix(have.GetName(), "adopted") && have.GetLabels()[v1alpha1.LabelHub] == "" && r.Method == http.MethodPatch {
		return
	}
	f.Wrong = append(f.Wrong, r.Method+" "+r.URL.Path)
}

// timeless is an object without when fields were set.
func timeless(o *unstructured.Unstructured) map[string]any {
	c := o.DeepCopy()
	list := c.GetManagedFields()
	for i := range list {
		list[i].Time = nil
	}
	c.SetManagedFields(list)
	return c.Object
}

func (f *API) watch(r *http.Request) *http.Response {
	since, _ := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	if since < f.from {
		return Failure(apierrors.NewResourceExpired("too old"))
	}
	if since > f.now {
		err := apierrors.NewTimeoutError("Too large resource version", 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		return Failure(err)
	}
	sel, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	s := &stream{api: f, ctx: r.Context(), sel: sel, wake: make(chan struct{}, 1)}
	for _, c := range f.log {
		if c.version > since {
			s.send(c)
		}
	}
	f.open[s] = true
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: s}
}

// Cut ends all watches; with expire they can't go on where they were.
func (f *API) Cut(expire bool) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for s := range f.open {
		s.end()
	}
	if expire {
		f.now++
		f.from, f.log = f.now, nil
	}
}

// stream is the body of a watch.
type stream struct {
	api  *API
	ctx  context.Context
	sel  labels.Selector
	wake chan struct{}

	mu    sync.Mutex
	buf   bytes.Buffer
	ended bool
}

func (s *stream) send(c change) {
	was := c.old != nil && s.sel.Matches(labels.Set(c.old.GetLabels()))
	is := c.new != nil && s.sel.Matches(labels.Set(c.new.GetLabels()))
	o, kind := c.new, "MODIFIED"
	switch {
	case is && !was:
		kind = "ADDED"
	case was && !is:
		kind, o = "DELETED", c.old.DeepCopy()
		o.SetResourceVersion(strconv.FormatInt(c.version, 10))
	case !is:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := json.Marshal(map[string]any{"type": kind, "object": o.Object})
	if err != nil {
		panic(err)
	}
	s.buf.Write(data)
	s.poke()
}

func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.poke()
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n, ended := 0, s.ended
		if s.buf.Len() > 0 {
			n, _ = s.buf.Read(p)
		}
		s.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case ended:
			return 0, io.EOF
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
}

func (s *stream) Close() error {
	s.end()
	s.api.Mu.Lock()
	defer s.api.Mu.Unlock()
	delete(s.api.open, s)
	return nil
}

// Snapshot is what is stored now.
func (f *API) Snapshot() map[string]*unstructured.Unstructured {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	out := map[string]*unstructured.Unstructured{}
	for id, o := range f.Store {
		out[id] = o.DeepCopy()
	}
	return out
}

// Restore has the store be as it was, without a word to those who watch. Unless its versions
// go on, they begin anew at an earlier one, and all watches end: the store was set back.
func (f *API) Restore(to map[string]*unstructured.Unstructured, goOn bool) {
	f.Mu.Lock()
	f.Store, f.log = map[string]*unstructured.Unstructured{}, nil
	for id, o := range to {
		f.Store[id] = o.DeepCopy()
	}
	if !goOn {
		f.now = 50
	}
	f.Mu.Unlock()
	if !goOn {
		f.Cut(false)
	}
}
