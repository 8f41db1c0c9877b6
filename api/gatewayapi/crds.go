// Package gatewayapi holds the definitions of the Gateway API, of its standard
// channel, as `spillway hub` installs them. The files in crds are those of the module
// sigs.k8s.io/gateway-api that go.mod names (Copyright The Kubernetes Authors,
// Apache-2.0), copied by `make generate`. DO NOT EDIT them.
package gatewayapi

import (
	"embed"
	"io/fs"
	"path"
)

//go:embed crds/*.yaml
var files embed.FS

// Files returns the files in the order of their names: CustomResourceDefinitions,
// and then the policy that keeps their versions from going back. A file may have
// several YAML documents.
func Files() [][]byte {
	entries, err := fs.ReadDir(files, "crds")
	if err != nil {
		panic(err) // embedded: can't happen
	}
	out := make([][]byte, 0, len(entries))
	for _, e := range entries {
		data, err := files.ReadFile(path.Join("crds", e.Name()))
		if err != nil {
			panic(err) // embedded: can't happen
		}
		out = append(out, data)
	}
	return out
}
