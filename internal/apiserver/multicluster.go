package apiserver

import (
	"cmp"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// importBundle is what a hub has of multi-cluster services, and exportBundle what a
// member has.
var (
	importBundle = bundle{"ServiceImport", [][]byte{crd.ServiceImportCRD}, mcsv1beta1.GroupVersion.Version, newerMulticluster, multiclusterVersion, ""}
	exportBundle = bundle{"ServiceExport", [][]byte{crd.ServiceExportCRD}, mcsv1beta1.GroupVersion.Version, newerMulticluster, multiclusterVersion, ""}
)

// multiclusterVersion is that of the definitions, which say it themselves
// (TestMulticlusterVersion).
const multiclusterVersion = "v0.5.2"

// newerMulticluster says why a definition of multi-cluster services is not older than
// ours, or the same: its labels name a later release or revision, or none at all.
func newerMulticluster(o *unstructured.Unstructured) string {
	labels := o.GetLabels()
	text, revision := labels[crd.ReleaseVersionLabel], cmp.Or(labels[crd.CustomResourceDefinitionSchemaRevisionLabel], "0")
	have, err := version.ParseSemantic(text)
	if err != nil {
		return fmt.Sprintf("its version is %q", text)
	}
	n, err := strconv.Atoi(revision)
	switch ours := version.MustParseSemantic(multiclusterVersion); {
	case ours.LessThan(have):
		return "it is of version " + text
	case ours.EqualTo(have) && (err != nil || n > 0):
		return fmt.Sprintf("it is of revision %q of version %s", revision, text)
	}
	return ""
}
