package openshift

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFileIsOfTheModule: whoever changes the version of the module runs `make generate`.
func TestFileIsOfTheModule(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	want, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "route/v1/zz_generated.crd-manifests/routes.crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(Routes, want) {
		t.Error("crds/routes.crd.yaml is not that of the module: run `make generate`")
	}
}
