#!/bin/bash
# Builds the pinned Contour for members of the lab into the folder given, and puts beside
# it what it wants of a cluster: its kinds, accounts and roles, as its module has them.
set -euo pipefail
module=github.com/projectcontour/contour@v1.33.8
to=$(realpath -m "$1")
part=$to.part
rm -rf "$part"
mkdir -p "$part"
scratch=$(mktemp -d) # outside of any module: what is pinned here is no dependency of ours
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
GOBIN=$part GOFLAGS= go install -trimpath -ldflags '-s -w' "${module%@*}/cmd/contour@${module#*@}"
from=$(go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
for f in 00-common 01-crds 02-rbac 02-role-contour; do
  echo "---"
  cat "$from/examples/contour/$f.yaml"
done >"$part/manifests.yaml"
rm -rf "$to"
mv "$part" "$to"
