#!/bin/bash
# Copies the standard channel of the Gateway API from the module that go.mod pins:
# a Go program can't embed files of another module.
set -euo pipefail
cd "$(dirname "$0")/.."
from=$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/standard
rm -f api/gatewayapi/crds/*.yaml
install -m 644 "$from"/*.yaml api/gatewayapi/crds/
