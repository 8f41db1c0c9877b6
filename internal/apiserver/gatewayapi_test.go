package apiserver

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/consts"
)

// TestNewer: nothing is replaced by what may be older, or have fewer fields.
func TestNewer(t *testing.T) {
	for _, c := range []struct {
		channel, version string
		replaced         bool
	}{
		{"standard", consts.BundleVersion, true},
		{"standard", "v1.0.0", true},
		{"standard", "v1.7.0-rc.1", true},
		{"standard", "v1.7.1", false},
		{"standard", "v1.10.0-rc.1", false},
		{"standard", "v2.0.0", false},
		{"standard", "", false},
		{"standard", "main", false},
		{"experimental", consts.BundleVersion, false},
		{"", consts.BundleVersion, false},
	} {
		why := newer(map[string]string{consts.ChannelAnnotation: c.channel, consts.BundleVersionAnnotation: c.version})
		if (why == "") != c.replaced {
			t.Errorf("%s %q: %q", c.channel, c.version, why)
		}
	}
}

// TestGatewayAPI: the standard channel is there, with the policy that keeps it from
// going back; a newer one is left as it is, and the log says so.
func TestGatewayAPI(t *testing.T) {
	s := sharedServer(t)
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes", "grpcroutes", "tlsroutes", "tcproutes", "udproutes", "referencegrants"} {
		if _, err := s.dynamic.Resource(schema.GroupVersion(gatewayv1.GroupVersion).WithResource(plural)).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: %v", plural, err)
		}
	}
	if _, err := s.dynamic.Resource(bundleKinds["ValidatingAdmissionPolicyBinding"]).Get(t.Context(), "safe-upgrades.gateway.networking.k8s.io", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	crds := s.dynamic.Resource(bundleKinds["CustomResourceDefinition"])
	const name = "grpcroutes.gateway.networking.k8s.io"
	install := func() string {
		t.Helper()
		var log bytes.Buffer
		if _, err := gatewayBundle().install(t.Context(), s.config, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	version := func(set string) string {
		t.Helper()
		if set != "" {
			patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, consts.BundleVersionAnnotation, set)
			if _, err := crds.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		o, err := crds.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o.GetAnnotations()[consts.BundleVersionAnnotation]
	}
	if log := install(); log != "" || version("") != consts.BundleVersion {
		t.Errorf("installed again: version %s, %s", version(""), log)
	}
	version("v99.0.0")
	defer version(consts.BundleVersion)
	if log := install(); !strings.Contains(log, name) || !strings.Contains(log, "v99.0.0") || version("") != "v99.0.0" {
		t.Errorf("a newer one: version %s, %s", version(""), log)
	}
}
