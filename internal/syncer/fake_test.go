package syncer

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/syncer/syncertest"
)

// fakeMember is a member whose API server is in memory, and has ConfigMaps.
func fakeMember(t *testing.T) (*member, *syncertest.API) {
	t.Helper()
	f := syncertest.New(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, configMaps)
	return newMember(t, &rest.Config{Host: "http://member.example", Transport: f}, 1), f
}
