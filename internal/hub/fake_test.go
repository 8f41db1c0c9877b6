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
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// fakeHub keeps objects as JSON and knows GET, merge patches with their
// precondition, and POST.
type fakeHub struct {
	*httptest.Server

	mu       sync.Mutex
	objects  map[string]map[string]any // by path
	revision int
	patches  []string // paths patched, in order
	gets     int
	fail     []int // status codes of the next writes
	changed  chan struct{}
	meddle   func(path string) // called after each GET
}

func newFakeHub(t *testing.T) *fakeHub {
	f := &fakeHub{objects: map[string]map[string]any{}, changed: make(chan struct{}, 1000)}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeHub) config() *rest.Config { return &rest.Config{Host: f.URL} }

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
	return f.objects[path]
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
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
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
	}
	f.signal()
}

func (f *fakeHub) signal() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
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
		if strings.HasSuffix(r.URL.Path, "/status") != (field == "status") && field != "metadata" && !strings.Contains(path, "/events/") {
			reply(w, http.StatusBadRequest, nil)
			return
		}
	}
	o = merge(o, p).(map[string]any)
	if status, _ := p["status"].(map[string]any); status["loadBalancer"] != nil {
		o["metadata"].(map[string]any)["managedFields"] = wroteAddresses(r.URL.Query().Get("fieldManager"))
	}
	f.put(path, o)
	f.patches = append(f.patches, r.URL.Path)
	reply(w, http.StatusOK, f.objects[path])
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
