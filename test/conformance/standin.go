package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The module that v1.7.0 has its echo server in, and where that of v1.6.3 is. The former
// is not to be had from Go's module proxy, so the latter is put in its place.
const (
	imagesModule = "sigs.k8s.io/gateway-api-conformance-images"
	earlierEcho  = "sigs.k8s.io/gateway-api/conformance/echo-basic"
	images       = "build/conformance-images" // v1.7.0.mod leads there
)

// standIn makes the module of images of what v1.6.3 has.
func standIn(ctx context.Context) error {
	module, err := first.command(ctx, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api/conformance")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(images); err != nil {
		return err
	}
	from := filepath.Join(module, "echo-basic")
	err = filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		inner, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return moved(path, filepath.Join(images, "echo-basic", inner))
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(images, "go.mod"), []byte("module "+imagesModule+"\n\ngo 1.26.0\n"), 0o600)
}

// moved copies a file whose imports are elsewhere. What is generated has the path in a
// descriptor, too, with its length before it, and imports none of the others.
func moved(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(from, ".pb.go") {
		text = bytes.ReplaceAll(text, []byte(earlierEcho), []byte(imagesModule+"/echo-basic"))
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
