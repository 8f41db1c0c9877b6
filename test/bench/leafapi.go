package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// leafAPI is what an api takes beside reads where hosts are of leaves: leaves in
// members, by server-side apply, and statuses of their roots on the hub. It plays the
// members' controllers, too: each leaf gets an address at once.
type leafAPI struct {
	api *api

	mu      sync.Mutex
	members map[int]*leafStore
	listed  map[int]bool // hosts whose roots have a status
	written asked
}

// asked counts requests.
type asked struct {
	leaves   int // writes in members
	statuses int // of roots, on the hub
	reads    int // of leaves, single ones
}

// leafStore is what one member has of leaves.
type leafStore struct {
	objects map[string]*unstructured.Unstructured // by namespace/name
	log     []logged
}

// logged is a change of one, for watches that begin after a list.
type logged struct {
	version uint64
	frame   []byte
}

const leafPlural = "ingresses"

var leafAddresses = []v1alpha1.LeafAddress{"203.0.113.0/24"}

func newLeafAPI(a *api) *leafAPI {
	return &leafAPI{api: a, members: map[int]*leafStore{}, listed: map[int]bool{}}
}

// counts are what was asked so far.
func (l *leafAPI) counts() asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// there is how many leaves there are, and how many roots have a status.
func (l *leafAPI) there() (leaves, statuses int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.members {
		leaves += len(s.objects)
	}
	return leaves, len(l.listed)
}

func (l *leafAPI) store(member int) *leafStore {
	s := l.members[member]
	if s == nil {
		s = &leafStore{objects: map[string]*unstructured.Unstructured{}}
		l.members[member] = s
	}
	return s
}

// serve answers what is about leaves, and reports whether it was. parts is a path, from
// "api" or "apis" on.
func (l *leafAPI) serve(w http.ResponseWriter, r *http.Request, member int, parts []string) bool {
	path := strings.Join(parts, "/")
	_, name, one := strings.Cut(path, leafPlural+"/")
	switch {
	case path == "api/v1/namespaces/kube-system":
		writeJSON(w, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system", "uid": fmt.Sprintf("cluster-%d", member)}})
	case member == hub && strings.HasSuffix(path, "/events"):
		_, _ = io.Copy(io.Discard, r.Body)
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case member == hub && one:
		l.root(w, r, strings.TrimSuffix(name, "/status"))
	case member == hub || !strings.Contains(path, "/"+leafPlural):
		return false
	case one:
		l.leaf(w, r, member, parts[len(parts)-3]+"/"+name)
	case r.URL.Query().Get("watch") != "":
		l.watch(w, r, member)
	default:
		l.list(w, member)
	}
	return true
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

// root serves the root of a host: it is read, or its status written.
func (l *leafAPI) root(w http.ResponseWriter, r *http.Request, name string) {
	var i int
	if _, err := fmt.Sscanf(name, "svc-%d", &i); err != nil {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	if r.Method == http.MethodPatch {
		var o networkingv1.Ingress
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			panic(err)
		}
		e := l.api.fleet.list(i, o.Status)
		l.mu.Lock()
		l.written.statuses++
		l.listed[i] = true
		l.mu.Unlock()
		l.api.tell(e)
	}
	o := l.api.fleet.rootNow(i)
	o.APIVersion, o.Kind, o.ResourceVersion = networkingv1.SchemeGroupVersion.String(), "Ingress", l.api.version()
	writeJSON(w, o)
}

// leaf serves one leaf: it is read, applied or deleted.
func (l *leafAPI) leaf(w http.ResponseWriter, r *http.Request, member int, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.store(member)
	have := s.objects[key]
	switch r.Method {
	case http.MethodGet:
		l.written.reads++
	case http.MethodPatch:
		try := r.URL.Query().Get("dryRun") != ""
		have = afterApply(have, r.Body, member)
		if try {
			break
		}
		l.written.leaves++
		l.changed(s, member, key, have)
	case http.MethodDelete:
		l.written.leaves++
		delete(s.objects, key)
		l.event(s, member, watch.Deleted, have)
	}
	if have == nil {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	writeJSON(w, have.Object)
}

// changed keeps a leaf, and has its controller give it an address.
func (l *leafAPI) changed(s *leafStore, member int, key string, o *unstructured.Unstructured) {
	typ := watch.Modified
	if s.objects[key] == nil {
		typ = watch.Added
	}
	s.objects[key] = o
	l.event(s, member, typ, o)
	if o.Object["status"] == nil {
		l.addressed(s, member, key, 0)
	}
}

// address gives a leaf another address.
func (l *leafAPI) address(member int, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addressed(l.store(member), member, key, 1)
}

func (l *leafAPI) addressed(s *leafStore, member int, key string, which int) {
	o := s.objects[key].DeepCopy()
	o.Object["status"] = map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": fmt.Sprintf("203.0.113.%d", 1+2*(member%100)+which)}}}}
	s.objects[key] = o
	l.event(s, member, watch.Modified, o)
}

// event tells those who watch a member's leaves. The caller has the lock.
func (l *leafAPI) event(s *leafStore, member int, typ watch.EventType, o *unstructured.Unstructured) {
	l.api.mu.Lock()
	defer l.api.mu.Unlock()
	l.api.revision++
	o.SetResourceVersion(strconv.FormatUint(l.api.revision, 10))
	frame, err := json.Marshal(map[string]any{"type": typ, "object": o.Object})
	if err != nil {
		panic(err)
	}
	frame = append(frame, '\n')
	s.log = append(s.log, logged{l.api.revision, frame})
	for w := range l.api.watchers {
		if w.at == (place{member: member, plural: leafPlural}) {
			w.frames <- frame
		}
	}
}

func (l *leafAPI) list(w http.ResponseWriter, member int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, items := l.store(member), []any{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		items = append(items, s.objects[key].Object)
	}
	writeJSON(w, map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "IngressList", "items": items, "metadata": map[string]any{"resourceVersion": l.api.version()},
	})
}

// watch streams events from a version on.
func (l *leafAPI) watch(w http.ResponseWriter, r *http.Request, member int) {
	from, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	me := &watcher{at: place{member: member, plural: leafPlural}, frames: make(chan []byte, backlog)}
	l.mu.Lock()
	for _, e := range l.store(member).log {
		if e.version > from {
			me.frames <- e.frame
		}
	}
	l.api.mu.Lock()
	l.api.watchers[me] = struct{}{}
	l.api.mu.Unlock()
	l.mu.Unlock()
	defer func() {
		l.api.mu.Lock()
		defer l.api.mu.Unlock()
		delete(l.api.watchers, me)
	}()
	w.Header().Set("Content-Type", "application/json")
	me.pump(w, r)
}

// afterApply is an object after a server-side apply by its only writer.
func afterApply(have *unstructured.Unstructured, body io.Reader, member int) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := json.NewDecoder(body).Decode(&o.Object); err != nil {
		panic(err)
	}
	meta := o.Object["metadata"].(map[string]any)
	own := map[string]any{"f:metadata": map[string]any{"f:labels": ownedFields(meta["labels"]), "f:annotations": ownedFields(meta["annotations"])}}
	if spec, ok := o.Object["spec"]; ok {
		own["f:spec"] = ownedFields(spec)
	}
	meta["managedFields"] = []any{map[string]any{
		"manager": v1alpha1.FieldManager, "operation": "Apply", "apiVersion": o.GetAPIVersion(), "fieldsType": "FieldsV1", "fieldsV1": own,
	}}
	meta["uid"] = fmt.Sprintf("%d-%s-%s", member, o.GetNamespace(), o.GetName())
	o.SetGeneration(1)
	if have != nil {
		o.SetGeneration(have.GetGeneration() + 1)
		if status, ok := have.Object["status"]; ok {
			o.Object["status"] = status
		}
	}
	return o
}

// ownedFields are the fields of a value as managedFields have them. Lists of Ingresses are
// owned as a whole.
func ownedFields(v any) map[string]any {
	out := map[string]any{}
	fields, _ := v.(map[string]any)
	for name, value := range fields {
		out["f:"+name] = ownedFields(value)
	}
	return out
}
