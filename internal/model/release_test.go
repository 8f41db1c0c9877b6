package model

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/gateway-api/pkg/consts"
)

func TestSupportedReleases(t *testing.T) {
	for text, want := range map[string]bool{
		"v1.6.0": true, "v1.6.3": true, "v1.7.0": true, "v1.7.12": true, "1.7.0": true, "v1.7.0+vendor.1": true,
		"v1.5.9": false, "v1.8.0": false, "v0.7.0": false, "v2.7.0": false, "v1.7.0-rc.1": false, "v1.8.0-dev": false,
		"": false, "v1": false, "v1.7": false, "main": false, "v1.7.99999999999999999999": false,
	} {
		for _, channel := range []string{"", "standard", "experimental"} {
			if got := (Release{text, channel}).Supported(); got != want {
				t.Errorf("%q of channel %q is supported: %v", text, channel, got)
			}
		}
	}
}

// TestSupportedReleasesAreTested: the suites are run with what we call supported, and
// what they are run with is; we are built with the newest of it.
func TestSupportedReleasesAreTested(t *testing.T) {
	files, err := os.ReadDir("../../test/conformance/reports")
	if err != nil {
		t.Fatal(err)
	}
	minors := map[uint]bool{}
	for _, f := range files {
		text := strings.TrimSuffix(f.Name(), ".yaml")
		if !(Release{Version: text}).Supported() {
			t.Errorf("the suite is run with %s, which is not supported", text)
			continue
		}
		minors[version.MustParseSemantic(text).Minor()] = true
	}
	for minor := uint(oldestMinor); minor <= newestMinor; minor++ {
		if name := fmt.Sprintf("v1.%d", minor); !minors[minor] || !strings.Contains(SupportedReleases(), name) {
			t.Errorf("%s: a suite is run with it: %v; we say that %s", name, minors[minor], SupportedReleases())
		}
	}
	if v := version.MustParseSemantic(consts.BundleVersion); v.Minor() != newestMinor {
		t.Errorf("built with %s, and v1.%d is the newest that is supported", consts.BundleVersion, newestMinor)
	}
}

// TestReleaseScopes: only the experimental channel since v1.7 has a field for it.
func TestReleaseScopes(t *testing.T) {
	for of, want := range map[Release]bool{
		{"v1.7.0", "experimental"}: true, {"v1.8.1", "experimental"}: true, {"v2.0.0", "experimental"}: true,
		{"v1.7.0", "standard"}: false, {"v1.6.3", "experimental"}: false, {"v1.7.0", ""}: false, {"main", "experimental"}: false, {}: false,
	} {
		if got := of.Scopes(); got != want {
			t.Errorf("%v: %v, want %v", of, got, want)
		}
	}
}
