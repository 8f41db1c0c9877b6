#!/bin/bash
# Copies the definition of Routes from the module of OpenShift's API that go.mod pins: a
# Go program can't embed files of another module.
set -euo pipefail
cd "$(dirname "$0")/.."
from=$(go list -m -f '{{.Dir}}' github.com/openshift/api)/route/v1/zz_generated.crd-manifests
install -m 644 "$from/routes.crd.yaml" api/openshift/crds/
