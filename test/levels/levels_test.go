package levels

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// levels lists our packages from the bottom up. A package may import those of
// lower levels only. A name stands for the package and all below it.
var levels = [][]string{
	{"api/v1alpha1", "api/gatewayapi", "api/openshift", "deploy/rbac", "internal/eventually", "internal/files", "internal/inc", "internal/pki", "internal/work"},
	{"internal/model"},
	{"internal/ingest", "internal/steer"},
	{"internal/fleet"},
	{"internal/leaf", "internal/envoy", "internal/kong", "internal/zone"},
	{"internal/cluster", "internal/hub", "internal/syncer", "internal/peer", "internal/checkpoint", "internal/xds", "internal/kongsync",
		"internal/dnsserver", "internal/lookup", "internal/dnssync", "internal/cloudlb", "internal/probe", "internal/ui", "internal/apiserver"},
	{"internal/app"},
	{"internal/cli", "internal/lab"},
	{"internal/demo"},
	{"cmd/spillway"},
	{"internal/sim"},
}

// only says who may import, directly, what.
var only = []struct {
	what string
	who  []string
}{
	{"k8s.io/client-go", []string{"internal/cluster", "internal/hub", "internal/syncer", "internal/work", "internal/cli", "internal/apiserver", "internal/lab", "internal/app", "test"}},
	{"k8s.io/apiserver", []string{"internal/apiserver", "internal/app"}}, // app: who may read the admin listener
	{"k8s.io/kubernetes", []string{"internal/apiserver"}},
	{"github.com/envoyproxy/go-control-plane", []string{"internal/envoy", "internal/xds", "test"}},
	{"github.com/miekg/dns", []string{"internal/zone", "internal/dnsserver", "internal/lookup", "internal/lab", "internal/demo", "test"}},
	{module + "internal/apiserver", []string{"cmd/spillway"}},
}

// forbidden are packages that a pure package never imports directly.
var forbidden = []string{"os", "os/exec", "net", "net/http", "log", "log/slog", "syscall", "math/rand", "math/rand/v2", "sync"}

// outside is a suite that other implementations may be tested with, and all that it may
// import, tests included, beside the standard library.
const outside = "test/multicluster/suite"

var outsideOnly = []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "sigs.k8s.io/gateway-api/apis", "sigs.k8s.io/yaml"}

type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	Dir          string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,GoFiles,Dir", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func unit(path string) (level int, name string) {
	for i, names := range levels {
		for _, n := range names {
			if below(path, n) {
				return i, n
			}
		}
	}
	return -1, ""
}

func TestLevels(t *testing.T) {
	for _, p := range list(t) {
		level, name := unit(p.ImportPath)
		if strings.HasPrefix(p.ImportPath, module+"internal/") && level < 0 {
			t.Errorf("%s has no level: give it one here and in docs/design/architecture.md", p.ImportPath)
		}
		if level < 0 {
			continue
		}
		for _, dep := range p.Imports {
			l, n := unit(dep)
			if n == "" || n == name {
				continue
			}
			if l >= level {
				t.Errorf("%s (level %d) imports %s (level %d)", p.ImportPath, level, dep, l)
			}
		}
	}
}

func TestIncImportsTheStandardLibraryOnly(t *testing.T) {
	for _, p := range list(t) {
		if !below(p.ImportPath, "internal/inc") {
			continue
		}
		for _, dep := range p.Imports {
			if strings.Contains(strings.Split(dep, "/")[0], ".") && !below(dep, "internal/inc") {
				t.Errorf("%s imports %s", p.ImportPath, dep)
			}
		}
	}
}

func TestTheMulticlusterSuiteKnowsNoImplementation(t *testing.T) {
	found := false
	for _, p := range list(t) {
		if !below(p.ImportPath, outside) {
			continue
		}
		found = true
		for _, dep := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			mayBe := func(n string) bool { return dep == n || strings.HasPrefix(dep, n+"/") }
			if strings.Contains(strings.Split(dep, "/")[0], ".") && !slices.ContainsFunc(outsideOnly, mayBe) {
				t.Errorf("%s imports %s; it may import %s", p.ImportPath, dep, strings.Join(outsideOnly, ", "))
			}
		}
	}
	if !found {
		t.Errorf("there is no %s", outside)
	}
}

func TestPurePackages(t *testing.T) {
	for _, p := range list(t) {
		if !IsPure(p.ImportPath) {
			continue
		}
		for _, dep := range p.Imports {
			if slices.Contains(forbidden, dep) {
				t.Errorf("%s is pure and imports %s", p.ImportPath, dep)
			}
		}
		checkSource(t, p)
	}
}

func TestWhoMayImportWhat(t *testing.T) {
	for _, p := range list(t) {
		for _, dep := range p.Imports {
			for _, rule := range only {
				if dep != rule.what && !strings.HasPrefix(dep, rule.what+"/") {
					continue
				}
				if !slices.ContainsFunc(rule.who, func(n string) bool { return below(p.ImportPath, n) }) {
					t.Errorf("%s imports %s; only %s may", p.ImportPath, dep, strings.Join(rule.who, ", "))
				}
			}
		}
	}
}

func TestFindingsHaveASeverity(t *testing.T) {
	for _, p := range list(t) {
		if strings.HasPrefix(p.ImportPath, module) {
			checkFindings(t, p)
		}
	}
}
