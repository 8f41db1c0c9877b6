// Package openshift holds the definition of Routes of OpenShift (group
// route.openshift.io), as `spillway hub --openshift-routes` installs it. The file in crds
// is that of the module github.com/openshift/api that go.mod names (Copyright Red Hat,
// Apache-2.0), copied by `make generate`. DO NOT EDIT it.
package openshift

import _ "embed"

// Routes is the CustomResourceDefinition of Routes.
//
//go:embed crds/routes.crd.yaml
var Routes []byte
