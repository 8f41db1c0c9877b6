// Command crds checks CustomResourceDefinitions as the API server of an older
// Kubernetes does, by its own code: schemas, and what their rules may cost. It is
// cheap to build, and proves no more than that the server takes the files.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func main() {
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no CRDs in %s", os.Args[1])
	}
	for _, file := range files {
		err = errors.Join(err, check(file))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(len(files), "CRDs are taken")
}

func check(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	scheme.Default(&crd)
	var internal apiextensions.CustomResourceDefinition
	if err := scheme.Convert(&crd, &internal, nil); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			internal.Status.StoredVersions = append(internal.Status.StoredVersions, v.Name)
		}
	}
	if err := validation.ValidateCustomResourceDefinition(context.Background(), &internal).ToAggregate(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
