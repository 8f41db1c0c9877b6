package hub

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// fakeHub keeps objects as JSON and knows GET, merge patches with their
// precondition, server-side apply of a status, and POST.
type fakeHub struct {
	mu       sync.Mutex
	applied  map[string]map[string]any // statuses that were applied, by path
	objects  map[string]map[string]any // by path
	revision int
	patches  []string // paths patched, in order
	puts     []string // replaced
	deletes  []string
	posts    []string // made
	gets     int
	fail     []int                    // status codes of the next writes
	meddle   func(path string)        // called after each GET
	broken   func(*http.Request) bool // these fail; nil: none
	breaks   failure                  // so; nil: answered with 500
}

func newFakeHub() *fakeHub {
	return &fakeHub{objects: map[string]map[string]any{}, applied: map[string]map[string]any{}}
}

func (f *fakeHub) config() *rest.Config {
	return &rest.Config{Host: "http://hub.example", Transport: f}
}

// RoundTrip answers without a network, so that a test may have a clock of its own.
func (f *fakeHub) RoundTrip(r *http.Request) (*http.Response, error) {
	if fails := f.failing(r); fails != nil {
		return fails()
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// failure is a way to fail.
type failure func() (*http.Response, error)

// answers is a failure that is an answer.
func answers(code int, body string, header ...string) failure {
	return func() (*http.Response, error) {
		w := httptest.NewRecorder()
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = w.WriteString(body)
		return w.Result(), nil
	}
}

func (f *fakeHub) failing(r *http.Request) failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.broken == nil || !f.broken(r):
		return nil
	case f.breaks != nil:
		return f.breaks
	}
	return answers(http.StatusInternalServerError, "")
}

// add makes an object at a path.
func (f *fakeHub) add(path string, o map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(path, o)
}

func (f *fakeHub) put(path string, o map[string]any) {
	f.revision++
	m, _ := o["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
		o["metadata"] = m
	}
	if m["name"] == nil {
		m["name"] = path[strings.LastIndex(path, "/")+1:]
	}
	if m["uid"] == nil {
		m["uid"] = "uid-" + path
	}
	m["resourceVersion"] = strconv.Itoa(f.revision)
	f.objects[path] = o
}

// get returns an object.
func (f *fakeHub) get(path string) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, _ := copied(f.objects[path]).(map[string]any)
	return o
}

// below lists the paths under a folder.
func (f *fakeHub) below(folder string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, p := range slices.Sorted(maps.Keys(f.objects)) {
		if strings.HasPrefix(p, folder) {
			out = append(out, p)
		}
	}
	return out
}

func (f *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			panic(err)
		}
	}
	if r.Method != http.MethodGet && len(f.fail) > 0 {
		code := f.fail[0]
		f.fail = f.fail[1:]
		reply(w, code, nil)
		return
	}
	path, _ := strings.CutSuffix(r.URL.Path, "/status")
	switch o := f.objects[path]; {
	case r.Method == http.MethodPost:
		f.create(w, path, body)
	case o == nil:
		reply(w, http.StatusNotFound, nil)
	case r.Method == http.MethodGet:
		f.gets++
		reply(w, http.StatusOK, o)
		if f.meddle != nil {
			f.meddle(path)
		}
	case r.Method == http.MethodPatch:
		f.patch(w, r, path, o, body)
	case r.Method == http.MethodPut:
		f.replace(w, path, o, body)
	case r.Method == http.MethodDelete:
		f.remove(w, path, o, body)
	}
}

// replace is an update of all but the status.
func (f *fakeHub) replace(w http.ResponseWriter, path string, o map[string]any, body []byte) {
	var n map[string]any
	if err := json.Unmarshal(body, &n); err != nil {
		panic(err)
	}
	if n["metadata"].(map[string]any)["resourceVersion"] != o["metadata"].(map[string]any)["resourceVersion"] {
		reply(w, http.StatusConflict, map[string]any{"reason": "Conflict"})
		return
	}
	n["status"] = o["status"]
	f.puts = append(f.puts, path)
	if f.put(path, n); unstructuredOf(n).GetDeletionTimestamp() != nil && len(unstructuredOf(n).GetFinalizers()) == 0 {
		delete(f.objects, path)
	}
	reply(w, http.StatusOK, n)
}

// remove deletes an object, or marks it where finalizers hold it.
func (f *fakeHub) remove(w http.ResponseWriter, path string, o map[string]any, body []byte) {
	var options struct {
		Preconditions struct{ UID, ResourceVersion string }
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			panic(err)
		}
	}
	m := o["metadata"].(map[string]any)
	if p := options.Preconditions; p.UID != "" && p.UID != m["uid"] || p.ResourceVersion != "" && p.ResourceVersion != m["resourceVersion"] {
		reply(w, http.StatusConflict, map[string]any{"reason": "Conflict"})
		return
	}
	f.deletes = append(f.deletes, path)
	if len(unstructuredOf(o).GetFinalizers()) > 0 {
		m["deletionTimestamp"] = "2026-11-27T00:00:00Z"
		f.put(path, o)
	} else {
		delete(f.objects, path)
	}
	reply(w, http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
}

func (f *fakeHub) create(w http.ResponseWriter, folder string, body []byte) {
	var o map[string]any
	if err := json.Unmarshal(body, &o); err != nil {
		panic(err)
	}
	path := folder + "/" + o["metadata"].(map[string]any)["name"].(string)
	if f.objects[path] != nil {
		reply(w, http.StatusConflict, map[string]any{"reason": "AlreadyExists"})
		return
	}
	f.put(path, o)
	f.posts = append(f.posts, path)
	reply(w, http.StatusCreated, o)
}

func (f *fakeHub) patch(w http.ResponseWriter, r *http.Request, path string, o map[string]any, body []byte) {
	var p map[string]any
	if err := json.Unmarshal(body, &p); err != nil {
		panic(err)
	}
	if m, _ := p["metadata"].(map[string]any); m != nil {
		if v := m["resourceVersion"]; v != nil && v != o["metadata"].(map[string]any)["resourceVersion"] {
			reply(w, http.StatusConflict, map[string]any{"reason": "Conflict"})
			return
		}
	}
	for field := range p {
		if strings.HasSuffix(r.URL.Path, "/status") != (field == "status") && !slices.Contains([]string{"metadata", "apiVersion", "kind"}, field) && !strings.Contains(path, "/events/") {
			reply(w, http.StatusBadRequest, nil)
			return
		}
	}
	if r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
		if r.URL.Query().Get("force") != "true" {
			reply(w, http.StatusConflict, nil)
			return
		}
		p = map[string]any{"status": f.apply(path, p["status"].(map[string]any), o)}
	}
	o = merge(o, p).(map[string]any)
	if status, _ := p["status"].(map[string]any); status["loadBalancer"] != nil {
		o["metadata"].(map[string]any)["managedFields"] = wroteAddresses(r.URL.Query().Get("fieldManager"))
	}
	f.put(path, o)
	f.patches = append(f.patches, r.URL.Path)
	reply(w, http.StatusOK, f.objects[path])
}

// apply returns the merge patch that does what applying a status does: what was
// applied before and is not now goes, conditions of other types stay.
func (f *fakeHub) apply(path string, status, o map[string]any) map[string]any {
	out := maps.Clone(status)
	for field := range f.applied[path] {
		if _, still := status[field]; !still {
			out[field] = nil
		}
	}
	if status["conditions"] != nil {
		out["conditions"] = conditionsOf(f.applied[path], status, o)
	}
	f.applied[path] = status
	return out
}

func conditionsOf(before, status, o map[string]any) []any {
	of := func(status map[string]any) map[string]any {
		list, _ := status["conditions"].([]any)
		out := map[string]any{}
		for _, c := range list {
			out[c.(map[string]any)["type"].(string)] = c
		}
		return out
	}
	had, have := of(before), of(status)
	there, _ := o["status"].(map[string]any)
	list, _ := there["conditions"].([]any)
	var out []any
	for _, c := range list {
		t := c.(map[string]any)["type"].(string)
		if have[t] != nil {
			c = have[t]
		} else if had[t] != nil {
			continue
		}
		out = append(out, c)
		delete(have, t)
	}
	for _, t := range slices.Sorted(maps.Keys(have)) {
		out = append(out, have[t])
	}
	return out
}

// wroteAddresses is what an API server notes about who writes status.loadBalancer.
func wroteAddresses(manager string) []any {
	fields := map[string]any{"f:status": map[string]any{"f:loadBalancer": map[string]any{"f:ingress": map[string]any{}}}}
	return []any{map[string]any{"manager": manager, "operation": "Update", "subresource": "status", "fieldsType": "FieldsV1", "fieldsV1": fields}}
}

// merge is RFC 7386.
func merge(into, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if old, ok := into.(map[string]any); ok {
		maps.Copy(out, old)
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merge(out[k], v)
		}
	}
	return out
}

func reply(w http.ResponseWriter, code int, body map[string]any) {
	if code >= 400 {
		status := map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
		maps.Copy(status, body)
		if status["reason"] == nil {
			status["reason"] = map[int]string{404: "NotFound", 403: "Forbidden", 500: "InternalError", 400: "BadRequest"}[code]
		}
		body = status
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err)
	}
}

func unstructuredOf(o map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: o}
}

// sent is how many patches there were.
func (f *fakeHub) sent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.patches)
}

// read is how often objects were read.
func (f *fakeHub) read() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gets
}

// copied is a value of its own.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		out := map[string]any{}
		for k, e := range v {
			out[k] = copied(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = copied(e)
		}
		return out
	}
	return v
}
