package v1alpha1

import (
	"embed"
	"io/fs"
	"path"
)

//go:embed crds/*.yaml
var crdFiles embed.FS

// CRDs returns the CustomResourceDefinitions of this package, one YAML
// document each, in the order of their file names.
func CRDs() [][]byte {
	entries, err := fs.ReadDir(crdFiles, "crds")
	if err != nil {
		panic(err) // embedded: can't happen
	}
	docs := make([][]byte, 0, len(entries))
	for _, e := range entries {
		doc, err := crdFiles.ReadFile(path.Join("crds", e.Name()))
		if err != nil {
			panic(err) // embedded: can't happen
		}
		docs = append(docs, doc)
	}
	return docs
}
