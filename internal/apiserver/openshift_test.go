package apiserver

import (
	"bytes"
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestOpenShiftVersion: the version that is noted is that of the module.
func TestOpenShiftVersion(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/openshift/api").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if got := strings.TrimSpace(string(out)); got != openShiftVersion {
		t.Errorf("openShiftVersion is %s, the module is of %s", openShiftVersion, got)
	}
}

// TestNewerRoutes: only what we have installed is replaced, and by nothing that is older.
func TestNewerRoutes(t *testing.T) {
	for mark, replaced := range map[string]bool{
		openShiftVersion: true, "v0.0.0-20240101000000-0123456789ab": true, "v0.0.0-20990101000000-0123456789ab": false, "v1.0.0": false, "main": false,
	} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetAnnotations(map[string]string{openShiftMark: mark})
		if why := newerRoutes(o); (why == "") != replaced {
			t.Errorf("%s: %q", mark, why)
		}
	}
	if newerRoutes(&unstructured.Unstructured{Object: map[string]any{}}) == "" {
		t.Error("somebody else's is replaced")
	}
}

// TestOpenShiftRoutes: the kind is installed, twice as once, and left as it is where
// somebody else has installed it.
func TestOpenShiftRoutes(t *testing.T) {
	s := sharedServer(t)
	crds := s.dynamic.Resource(bundleKinds["CustomResourceDefinition"])
	const name = "routes.route.openshift.io"
	t.Cleanup(func() { _ = crds.Delete(t.Context(), name, metav1.DeleteOptions{}) })
	for _, c := range []struct{ patch, said string }{
		{"", ""},
		{"", ""},
		{`{"metadata": {"annotations": {"` + openShiftMark + `": null}}}`, "somebody else has installed it"},
	} {
		if c.patch != "" {
			if _, err := crds.Patch(t.Context(), name, types.MergePatchType, []byte(c.patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		if _, err := routeBundle.install(t.Context(), s.config, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), c.said) || c.said == "" && log.Len() > 0 {
			t.Errorf("after %q: %s", c.patch, log.String())
		}
	}
	have, err := crds.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, marked := have.GetAnnotations()[openShiftMark]; marked {
		t.Error("somebody else's was replaced")
	}
}
