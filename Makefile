# Every target is one line in `make help`. All of them work on a fresh clone.
SHELL       := /bin/bash
export GOTOOLCHAIN := auto
export SPILLWAY_ENVOY ?= $(CURDIR)/.tools/envoy
CONTOUR     := .tools/contour-v1.33.8
export SPILLWAY_CONTOUR ?= $(CURDIR)/$(CONTOUR)

GOLANGCI    := v2.15.0
CONTROLLER  := v0.22.0
OLD         ?= 1.33 1.36
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS     := -s -w -X github.com/spillway-dev/spillway/internal/cli.Version=$(VERSION)
# What depends on k8s.io/kubernetes is too dear under the race detector; pure packages start no
# goroutine, which a test enforces. Vet looks at all of them in lint.
RACE         = $(shell go run ./hack/racepkgs)

.DEFAULT_GOAL := help
.PHONY: help build demo demo-leaf test race lint generate bench soak lost hostile conformance multicluster users old-kubernetes old-crds tools

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/spillway
	go build -ldflags '$(LDFLAGS)' -o bin/spillway ./cmd/spillway

demo: build tools ## a whole fleet on this machine, with a story; Ctrl-C ends it
	bin/spillway demo $(DEMO)

demo-leaf: build tools ## the same where members have Contour: leaves, their status, losses; DEMO="--check --report FILE"
	bin/spillway demo leaf $(DEMO)

test: build tools ## everything that must pass
	go test $(TEST) ./...

race: tools ## the same under the race detector, but for pure packages and what embeds Kubernetes (needs a C compiler)
	CGO_ENABLED=1 go test -race -vet=off $(TEST) $(RACE)

lint: .tools/golangci-lint-$(GOLANGCI) ## golangci-lint, pinned
	.tools/golangci-lint-$(GOLANGCI) run ./...

generate: ## deepcopy functions, CRDs, those of the Gateway API and of OpenShift, docs/design/map.md and docs/reference/commands.md from the Go code
	go run sigs.k8s.io/controller-tools/cmd/controller-gen@$(CONTROLLER) object crd:allowDangerousTypes=true paths=./api/v1alpha1/... output:crd:dir=./api/v1alpha1/crds
	hack/gatewayapi.sh
	hack/openshift.sh
	SPILLWAY_UPDATE_STORIES=1 go test ./internal/sim -run '^TestMap$$' -count 1
	SPILLWAY_UPDATE_STORIES=1 go test ./cmd/spillway -run '^TestReference$$' -count 1

bench: tools ## what a change costs: print it and write build/bench.json (docs/performance.md)
	@mkdir -p build
	go run ./test/bench -out build/bench.json $(BENCH)

soak: build tools ## a fleet under load, edits, churn and kills; SOAK="-duration 10m" for the whole
	go run ./test/soak $(SOAK)

lost: build tools ## 20 members, one of which loses its API while serve is replaced (docs/lab.md)
	go run ./test/lost $(LOST)

old-kubernetes: build ## CRDs, roles and statuses on real API servers of older versions; OLD="1.33" for one
	for v in $(OLD); do m=; [ $$v = 1.33 ] || m=-modfile=kubernetes-$$v.mod; \
	  (cd test/oldhub && go build -ldflags '-s -w' $$m -o ../../build/oldhub-$$v .) && \
	  SPILLWAY_BIN=$(CURDIR)/build/oldhub-$$v go test ./deploy/rbac -vet=off -count 1 -short || exit; done

old-crds: ## what the code of Kubernetes 1.33 says of our CRDs: cheap, without a server
	cd test/oldhub && go run ./crds ../../api/v1alpha1/crds

conformance: build tools ## the upstream conformance suite of the Gateway API in the lab; CONFORMANCE="-version 1.7.0 -run HTTPRouteWeight" (docs/conformance.md)
	go run ./test/conformance $(CONFORMANCE)

multicluster: build tools ## our multi-cluster conformance suite in the lab; MULTICLUSTER="-run FailoverToOtherMember" (docs/multicluster.md)
	go run ./test/multicluster $(MULTICLUSTER)

users: build tools ## what users do with Gateways, under load; USERS="-duration 5m" (docs/users.md)
	go run ./test/users $(USERS)

hostile: build tools ## the soak under attack: a stolen identity, a hostile member and tenant, DNS floods (docs/hostile.md)
	go build -o build/soak ./test/soak
	go run ./test/hostile $(HOSTILE)

tools: .tools/envoy $(CONTOUR)/contour

.tools/envoy: hack/envoy.txt hack/fetch-envoy.py
	python3 hack/fetch-envoy.py .tools/envoy

$(CONTOUR)/contour: hack/contour.sh
	hack/contour.sh $(CONTOUR)

.tools/golangci-lint-$(GOLANGCI):
	@mkdir -p .tools
	GOBIN=$(CURDIR)/.tools/lint go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	mv .tools/lint/golangci-lint $@
