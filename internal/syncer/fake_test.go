package syncer

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
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// fakeAPI is an API server of ConfigMaps in memory, so that a test may have a
// clock of its own and thousands of runs: versions, preconditions, watches by
// label, and field management by the library of the real one. What is known of
// the real one in other ways is tested against the real one.
type fakeAPI struct {
	fields *managedfields.FieldManager
	mu     sync.Mutex
	now    int64
	uids   int64
	store  map[string]*unstructured.Unstructured // by namespace/name
	log    []change
	from   int64 // versions up to here are not watchable
	open   map[*stream]bool
	wrong  []string // writes by the syncer that must not be

	answer func(*http.Request) int // the code to fail with; 0: do not
}

type change struct {
	version  int64
	old, new *unstructured.Unstructured
}

var configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

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

func newFake(t *testing.T) *fakeAPI {
	t.Helper()
	fields, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), schemeless{}, schemeless{}, schemeless{}, configMapKind, configMapKind.GroupVersion(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeAPI{fields: fields, now: 100, store: map[string]*unstructured.Unstructured{}, open: map[*stream]bool{}}
}

func fakeMember(t *testing.T) (*member, *fakeAPI) {
	t.Helper()
	f := newFake(t)
	return newMember(t, &rest.Config{Host: "http://member.example", Transport: f}, 1), f
}

func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answer != nil {
		if code := f.answer(r); code != 0 {
			status := apierrors.NewGenericServerResponse(code, r.Method, configMaps.GroupResource(), "", "", 0, true).Status()
			status.Message, status.TypeMeta = "as the test wants", metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			return reply(code, status), nil
		}
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	parts := strings.Split(path, "/") // configmaps, or namespaces/NS/configmaps/NAME
	switch {
	case path == "configmaps" && r.URL.Query().Get("watch") != "":
		return f.watch(r), nil
	case path == "configmaps", len(parts) == 3 && r.Method == http.MethodGet: // there is one namespace
		return f.list(r), nil
	case len(parts) == 3 && r.Method == http.MethodPost:
		return f.post(r, parts[1], body), nil
	case len(parts) == 4 && parts[2] == "configmaps":
		return f.one(r, parts[1]+"/"+parts[3], body), nil
	}
	return failure(apierrors.NewNotFound(configMaps.GroupResource(), path)), nil
}

func reply(code int, body any) *http.Response {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data))}
}

func failure(err error) *http.Response {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		s = apierrors.NewInternalError(err)
	}
	status := s.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return reply(int(status.Code), status)
}

func (f *fakeAPI) list(r *http.Request) *http.Response {
	sel, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": map[string]any{"resourceVersion": strconv.FormatInt(f.now, 10)}}}
	for _, id := range slices.Sorted(maps.Keys(f.store)) {
		if o := f.store[id]; sel.Matches(labels.Set(o.GetLabels())) {
			list.Items = append(list.Items, *o.DeepCopy())
		}
	}
	return reply(http.StatusOK, list.UnstructuredContent())
}

func (f *fakeAPI) post(r *http.Request, ns string, body []byte) *http.Response {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(body); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	id := ns + "/" + o.GetName()
	if f.store[id] != nil {
		return failure(apierrors.NewAlreadyExists(configMaps.GroupResource(), o.GetName()))
	}
	empty, _ := schemeless{}.New(configMapKind)
	after, err := f.fields.Update(empty, o, r.URL.Query().Get("fieldManager"))
	if err != nil {
		return failure(err)
	}
	return f.put(r, id, nil, after)
}

// one answers about one object.
func (f *fakeAPI) one(r *http.Request, id string, body []byte) *http.Response {
	have := f.store[id]
	notFound := apierrors.NewNotFound(configMaps.GroupResource(), id)
	switch kind := types.PatchType(r.Header.Get("Content-Type")); {
	case r.Method == http.MethodPatch && kind == types.ApplyPatchType:
		return f.apply(r, id, have, body)
	case have == nil:
		return failure(notFound)
	case r.Method == http.MethodGet:
		return reply(http.StatusOK, have.Object)
	case r.Method == http.MethodDelete:
		var o metav1.DeleteOptions
		if err := json.Unmarshal(body, &o); err != nil {
			return failure(apierrors.NewBadRequest(err.Error()))
		}
		if p := o.Preconditions; p != nil && (p.UID != nil && *p.UID != have.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != have.GetResourceVersion()) {
			return failure(apierrors.NewConflict(configMaps.GroupResource(), id, errors.New("precondition")))
		}
		return f.put(r, id, have, nil)
	case r.Method == http.MethodPatch && kind == types.MergePatchType:
		return f.merge(r, id, have, body)
	}
	return failure(apierrors.NewMethodNotSupported(configMaps.GroupResource(), r.Method))
}

func (f *fakeAPI) apply(r *http.Request, id string, have *unstructured.Unstructured, body []byte) *http.Response {
	patch := &unstructured.Unstructured{}
	if err := patch.UnmarshalJSON(body); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	live, _ := schemeless{}.New(configMapKind)
	if have != nil {
		live = have.DeepCopy()
	}
	after, err := f.fields.Apply(live, patch, r.URL.Query().Get("fieldManager"), r.URL.Query().Get("force") == "true")
	if err != nil {
		return failure(err)
	}
	if conflict := precondition(patch, have); conflict != nil {
		return failure(conflict)
	}
	return f.put(r, id, have, after)
}

// precondition is what an object says that it changes.
func precondition(says, have *unstructured.Unstructured) error {
	uid, version := says.GetUID(), says.GetResourceVersion()
	if have == nil && uid != "" || have != nil && (uid != "" && uid != have.GetUID() || version != "" && version != have.GetResourceVersion()) {
		return apierrors.NewConflict(configMaps.GroupResource(), says.GetName(), errors.New("it is another"))
	}
	return nil
}

func (f *fakeAPI) merge(r *http.Request, id string, have *unstructured.Unstructured, body []byte) *http.Response {
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	next := &unstructured.Unstructured{Object: merged(have.DeepCopy().Object, patch)}
	if conflict := precondition(next, have); conflict != nil {
		return failure(conflict)
	}
	after, err := f.fields.Update(have.DeepCopy(), next, r.URL.Query().Get("fieldManager"))
	if err != nil {
		return failure(err)
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
func (f *fakeAPI) put(r *http.Request, id string, have *unstructured.Unstructured, after runtime.Object) *http.Response {
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
				return reply(code, have.Object)
			}
		}
	}
	if r.URL.Query().Get("dryRun") != "" {
		return reply(code, next.Object)
	}
	f.judge(r, have)
	f.now++
	if next == nil {
		delete(f.store, id)
	} else {
		next.SetResourceVersion(strconv.FormatInt(f.now, 10))
		f.store[id] = next
	}
	f.log = append(f.log, change{f.now, have, next})
	for s := range f.open {
		s.send(f.log[len(f.log)-1])
	}
	if next == nil {
		next = have
	}
	return reply(code, next.Object)
}

// judge notes writes of a syncer over what is not its own.
func (f *fakeAPI) judge(r *http.Request, have *unstructured.Unstructured) {
	hub := r.Header.Get("X-Test-Hub")
	if hub == "" || have == nil || have.GetLabels()[v1alpha1.LabelHub] == hub || strings.HasPrefix(have.GetName(), "adopted") && ownerOf(have, hub) == foreign && r.Method == http.MethodPatch {
		return
	}
	f.wrong = append(f.wrong, r.Method+" "+r.URL.Path)
}

// timeless is an object without when fields were set.
func timeless(o *unstructured.Unstructured) map[string]any {
	c := o.DeepCopy()
	list := c.GetManagedFields()
	for i := range list {
		list[i].Time = nil
	}
	c.SetManagedFields(list)
	var out map[string]any
	if err := convert(c.Object, &out); err != nil {
		panic(err)
	}
	return out
}

func (f *fakeAPI) watch(r *http.Request) *http.Response {
	since, _ := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	if since < f.from {
		return failure(apierrors.NewResourceExpired("too old"))
	}
	if since > f.now {
		err := apierrors.NewTimeoutError("Too large resource version", 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		return failure(err)
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

// cut ends all watches; with expire they can't go on where they were.
func (f *fakeAPI) cut(expire bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
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
	api  *fakeAPI
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
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	delete(s.api.open, s)
	return nil
}
