package gatewayapi

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

// TestFilesAreOfTheModule: whoever changes the version of the module runs `make
// generate`.
func TestFilesAreOfTheModule(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	theirs, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "config/crd/standard/*.yaml"))
	if err != nil || len(theirs) == 0 {
		t.Fatalf("the module has no files: %v", err)
	}
	ours := Files()
	if len(ours) != len(theirs) {
		t.Fatalf("%d files, the module has %d: run `make generate`", len(ours), len(theirs))
	}
	for i, name := range theirs {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours[i], want) {
			t.Errorf("%s is not that of the module: run `make generate`", filepath.Base(name))
		}
	}
}
