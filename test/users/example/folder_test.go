package example

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	strict "sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

const root = "../../.."

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func kinds(t *testing.T, text string) (out []string) {
	t.Helper()
	in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var o unstructured.Unstructured
		if err := in.Decode(&o.Object); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, o.GetKind())
	}
}

// Every file says what is to be seen of it, at one Gateway, and is in the folder's list.
func TestFilesCanBeChecked(t *testing.T) {
	list := read(t, filepath.Join(root, "examples/gatewayapi/README.md"))
	shown := map[string]bool{}
	for _, file := range files(t) {
		name, text := filepath.Base(file), read(t, file)
		all, err := Read(name, text)
		if err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(all, func(e Expectation) bool { return e.Protocol != Object }) {
			t.Errorf("%s: it says of nothing what comes", name)
		}
		has := kinds(t, text)
		if n := len(slices.DeleteFunc(slices.Clone(has), func(k string) bool { return k != "Gateway" })); n != 1 {
			t.Errorf("%s has %d Gateways: want one, at which it is asked", name, n)
		}
		for _, kind := range has {
			shown[kind] = true
			if !user.Knows(kind) {
				t.Errorf("%s: the lab's clusters know no %s: add it to internal/lab/user", name, kind)
			}
		}
		if !strings.Contains(list, "]("+name+")") {
			t.Errorf("examples/gatewayapi/README.md does not name %s", name)
		}
	}
	want := []string{"BackendTLSPolicy", "GRPCRoute", "Gateway", "HTTPRoute", "ListenerSet", "ReferenceGrant", "ServiceImport", "TCPRoute", "TLSRoute", "UDPRoute"}
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, want) {
		t.Errorf("kinds with an example are %v, want %v", got, want)
	}
}

func files(t *testing.T) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(root, "examples/gatewayapi/*.yaml"))
	if err != nil || len(out) == 0 {
		t.Fatal("no examples", err)
	}
	return out
}

// The reference leads to every example, and to none that is not there.
func TestReferenceNamesEveryFile(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/reference/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	const link = "](../../examples/gatewayapi/"
	named := map[string]bool{}
	for _, page := range pages {
		for i, part := range strings.Split(read(t, page), link) {
			if name, _, ok := strings.Cut(part, ")"); i > 0 && ok {
				named[name] = true
			}
		}
	}
	want := map[string]bool{"": true} // the folder
	for _, file := range files(t) {
		want[filepath.Base(file)] = true
	}
	for _, file := range experimental(t) {
		want["experimental/"+filepath.Base(file)] = true
	}
	delete(named, "README.md")
	named[""] = true
	for name := range want {
		if !named[name] {
			t.Errorf("no page of docs/reference names examples/gatewayapi/%s", name)
		}
	}
	for name := range named {
		if !want[name] {
			t.Errorf("docs/reference names examples/gatewayapi/%s, which is not there", name)
		}
	}
}

// TestExperimentalExamples: what is not in the standard channel is read as it is written,
// without a complaint, and says what comes of it.
func TestExperimentalExamples(t *testing.T) {
	list := read(t, filepath.Join(root, "examples/gatewayapi/README.md"))
	for _, file := range experimental(t) {
		name, text := filepath.Base(file), read(t, file)
		if said, err := Read(name, text); err != nil || len(said) == 0 {
			t.Errorf("%s: %v, %d lines say what comes", name, err, len(said))
		}
		if !strings.Contains(list, "](experimental/"+name+")") {
			t.Errorf("examples/gatewayapi/README.md does not name %s", name)
		}
		for part := range strings.SplitSeq(text, "\n---\n") {
			if !strings.Contains(part, "kind: HTTPRoute") {
				continue // of the others there are examples in the lab
			}
			route := &gatewayv1.HTTPRoute{}
			if err := strict.UnmarshalStrict([]byte(part), route); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if _, _, rules, told := ingest.HTTPRoute(route); len(told) > 0 || len(rules) != 1 {
				t.Errorf("%s: told %v of %d hosts", name, told, len(rules))
			}
		}
	}
}

func experimental(t *testing.T) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(root, "examples/gatewayapi/experimental/*.yaml"))
	if err != nil || len(out) == 0 {
		t.Fatal("no files", err)
	}
	return out
}
