# Mainstay. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
export CGO_ENABLED := 0
# Verification of image signatures in pure Go; a build without the tag refuses images
# for which a policy asks for a signature.
export GOFLAGS := $(shell go env GOFLAGS) -trimpath -tags=containers_image_openpgp,grpcnotrace

GO_FILES := $(shell find . -name '*.go' -not -path './devcluster/*' -not -path './tools/*' -not -path './web/node_modules/*' 2>/dev/null) \
	$(shell find web/dist -type f 2>/dev/null) go.mod go.sum
DEVCLUSTER_FILES := $(shell find devcluster -type f)
LDFLAGS := -s -w -X github.com/mainstay-dev/mainstay/internal/cli/terminal.version=$(VERSION)
K8S_VERSION := v1.36.3
DEVCLUSTER_LDFLAGS := -s -w \
	-X k8s.io/component-base/version.gitVersion=$(K8S_VERSION) \
	-X k8s.io/client-go/pkg/version.gitVersion=$(K8S_VERSION)

# Every Go module of this repository.
MODULES := . devcluster tools

TOOLS := bin/tools/.built
CONTROLLER_GEN := bin/tools/controller-gen
GOLANGCI_LINT := bin/tools/golangci-lint-kube-api-linter
GOIMPORTS := bin/tools/goimports
LANGUAGE := bin/tools/language
TRIMCRD := bin/tools/trimcrd
PROTOGEN := bin/tools/protogen
SBOM := bin/tools/sbom
VULNCHECK := bin/tools/vulncheck

# The versions that the demo of a cluster is updated by. The end-to-end tests take the first two.
DEMO_RELEASES := 1.0.0 1.1.0 1.2.0

# Packages of the unit tests; test/e2e has a target of its own. Packages whose tests use an API server come first: they wait
# most of the time, and the other packages use the processors meanwhile. Those with the most tests come before all others, so
# that none of them runs alone at the end.
UNIT := $$(for package in $$(grep -rl --include='*_test.go' 'env\.Run[A-Za-z]*(' api config internal | xargs -n1 dirname | sort -u); do \
		echo "$$(cat $$package/*_test.go | wc -c) ./$$package"; \
	done | sort -rn | cut -d' ' -f2) \
	$$(go list ./... | grep -v /test/e2e)

# The linters run vet. Nobody debugs the programs of tests that pass; linking them without debug information takes a third
# less time.
LINK_FLAGS := -vet=off -ldflags='-s -w'

# Most tests wait for an API server most of the time, so that three times as many packages as cores keep a machine busy. The
# timeout only ends tests that hang: the default of ten minutes is too short for the largest packages on a slow and busy
# machine.
TEST_FLAGS := -p $(shell expr 3 '*' $$(nproc)) -timeout=30m $(LINK_FLAGS)

# Test programs borrow running API servers instead of starting one each.
WITH_SERVERS := go run -ldflags='-s -w' ./internal/testing/servers

# Compilers and linkers have more memory than time. Linking the program of a test takes 30 percent less CPU time
# with fewer garbage collections. Programs that are measured, or run in a cluster, keep the default.
test fuzz bin/%: export GOGC := 400

# Packages of olm-operator, by whose markers its role is made.
OLM_OPERATOR := ./internal/classic/olmoperator/...;./internal/classic/csv/...;./internal/classic/group/...;./internal/classic/copied/...;./internal/classic/condition/...;./internal/classic/operator/...;./internal/classic/takeover/...;./internal/classic/clusteroperator/...

##@ Use

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: bin/mainstay bin/opm bin/devcluster ## Build bin/mainstay, bin/opm and bin/devcluster.

.PHONY: demo
demo: build bin/hello-operator bin/demo ## Walk the main job through on an embedded cluster. BUNDLES=DIR uses real bundles, KEEP=1 leaves it running, CONSOLE=1 serves the web console at the end.
	@bin/demo $(if $(BUNDLES),--bundles '$(BUNDLES)') $(if $(KEEP),--keep) $(if $(CONSOLE),--console)

.PHONY: demo-cluster
demo-cluster: build bin/democluster $(DEMO_RELEASES:%=bin/releases/%/mainstay) ## Update a cluster with its nodes by signed releases of Mainstay, on an embedded one.
	@bin/democluster --programs bin/releases

.PHONY: scenario-catalogs
scenario-catalogs: build bin/scenario-catalogs ## Serve catalogs of FBC=DIR and of BUNDLES=DIR through updates, restarts and removals, while clients read.
	@bin/scenario-catalogs --fbc '$(FBC)' --bundles '$(BUNDLES)'

.PHONY: scenario-extensions
scenario-extensions: build bin/scenario-extensions ## Install, update and remove each bundle of BUNDLES=DIR with the least rights, and say what is refused.
	@bin/scenario-extensions --bundles '$(BUNDLES)'

.PHONY: scenario-subscriptions
scenario-subscriptions: build bin/scenario-subscriptions ## Subscribe to each channel of BUNDLES=DIR with OLM Classic, and upgrade to its head. PACKAGES=a,b selects packages.
	@bin/scenario-subscriptions --bundles '$(BUNDLES)' --packages '$(PACKAGES)'

.PHONY: scenario-operators
scenario-operators: build bin/scenario-operators ## Install each bundle of BUNDLES=DIR in each install mode with OLM Classic, and move it to OLM v1. PACKAGES=a,b selects packages.
	@bin/scenario-operators --bundles '$(BUNDLES)' --packages '$(PACKAGES)'

##@ Develop

.PHONY: test
test: bin/devcluster ## Run the tests of all modules.
	@$(MAKE) --no-print-directory --jobs test-mainstay test-devcluster test-tools

.PHONY: test-mainstay test-devcluster test-tools
test-mainstay:
	$(WITH_SERVERS) go test $(TEST_FLAGS) $(UNIT)
test-devcluster:
	cd devcluster && go test $(TEST_FLAGS) ./...
test-tools:
	cd tools && go test $(TEST_FLAGS) ./...

.PHONY: web
web: web/node_modules/.package-lock.json ## Check, test and build the pages of the console to web/dist. Needs npm.
	cd web && npm run --silent api && npm run --silent lint && npm run --silent test && npm run --silent build

# The versions of all packages, and of Node.js itself, are those of the lock file.
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

.PHONY: e2e
e2e: build bin/hello-operator bin/demo bin/scenario-subscriptions bin/scenario-operators $(wordlist 1,2,$(DEMO_RELEASES:%=bin/releases/%/mainstay)) ## Run the flows on a cluster with a real node (root and containerd), else on simulated nodes.
	go test $(LINK_FLAGS) -count=1 -timeout 40m -v ./test/e2e/...
	MAINSTAY_TEST_NODES=2000 go test $(LINK_FLAGS) -count=1 -v -run TestManyNodes ./internal/node

# The folder of real bundles is used if it is there. SPECS names specs of web/e2e, such as "installed faults".
CONSOLE_BUNDLES ?= $(wildcard ../shared/data/bundles)
.PHONY: e2e-console
e2e-console: build bin/e2e-console web/node_modules/.package-lock.json ## Test the console in Chromium, on an embedded cluster. SPECS="a b" selects specs, UPDATE=1 writes docs/console, KEEP=1 waits instead.
	bin/e2e-console --bundles '$(CONSOLE_BUNDLES)' $(if $(UPDATE),--update) $(if $(KEEP),--keep) $(SPECS)

.PHONY: lint
lint: $(TOOLS) ## Run the linters.
	$(LANGUAGE) .
	$(GOLANGCI_LINT) run ./...
	cd devcluster && ../$(GOLANGCI_LINT) run --config ../.golangci.yaml ./...

.PHONY: generate
generate: $(TOOLS) ## Write generated code, CRDs and roles.
	$(CONTROLLER_GEN) object paths=./api/...
	$(CONTROLLER_GEN) crd paths=./api/olm/... output:crd:dir=config/crd
	$(CONTROLLER_GEN) crd "paths=./api/config/...;./api/machineconfiguration/...;./api/operator/..." output:crd:dir=config/platform
	mv config/platform/config.openshift.io_operatorhubs.yaml config/classic/marketplace/ # it comes with the marketplace
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true paths=./api/operators/... output:crd:dir=config/classic/crd
	$(TRIMCRD) config/classic/crd/operators.coreos.com_clusterserviceversions.yaml spec.install.spec.deployments.spec # with the descriptions of Deployments it has 367 kB as JSON, and kubectl apply takes 262
	$(CONTROLLER_GEN) crd paths=./api/packages/... output:crd:dir=internal/classic/packageserver/serve/openapi # what clients are told of a kind that is not stored
	$(CONTROLLER_GEN) rbac:roleName=catalogd-manager-role "paths=./internal/catalog/...;./internal/pull/..." output:rbac:dir=config/rbac/catalogd
	$(CONTROLLER_GEN) rbac:roleName=operator-controller-manager-role "paths=./internal/extension/...;./internal/pull/...;./internal/run/..." output:rbac:dir=config/rbac/operator-controller
	$(CONTROLLER_GEN) rbac:roleName=cluster-version-operator-role "paths=./internal/cluster/..." output:rbac:dir=config/cluster-version-operator
	$(CONTROLLER_GEN) rbac:roleName=machine-config-controller,fileName=controller_role.yaml "paths=./internal/node/rollout/...;./internal/node/drain/...;./internal/node/report/..." output:rbac:dir=config/machine-config
	$(CONTROLLER_GEN) rbac:roleName=machine-config-daemon,fileName=daemon_role.yaml "paths=./internal/node/daemon/..." output:rbac:dir=config/machine-config
	$(CONTROLLER_GEN) rbac:roleName=machine-config-server,fileName=server_role.yaml "paths=./internal/node/server/..." output:rbac:dir=config/machine-config
	$(CONTROLLER_GEN) rbac:roleName=olm-operator "paths=$(OLM_OPERATOR)" output:rbac:dir=config/classic/olm-operator
	$(CONTROLLER_GEN) rbac:roleName=catalog-operator "paths=./internal/classic/catalogoperator/...;./internal/classic/source/...;./internal/classic/subscription/...;./internal/classic/installplan/...;./internal/classic/unpack/..." output:rbac:dir=config/classic/catalog-operator
	$(CONTROLLER_GEN) rbac:roleName=marketplace-operator "paths=./internal/classic/marketplace/..." output:rbac:dir=config/classic/marketplace
	$(CONTROLLER_GEN) rbac:roleName=packageserver paths=./internal/classic/packageserver/... output:rbac:dir=config/classic/packageserver
	$(PROTOGEN) internal/classic/registry/registrypb/registry.proto
	$(GOIMPORTS) -local github.com/mainstay-dev/mainstay -w $$(git ls-files '*.go' | grep -v -e zz_generated -e '\.pb\.go$$')

.PHONY: verify
verify: generate ## Fail when generated files, go.mod or formatting are not up to date.
	go mod tidy -diff
	cd devcluster && go mod tidy -diff
	cd tools && go mod tidy -diff
	git diff --exit-code
	@test -z "$$(git status --porcelain -- config api)" || { git status --short -- config api; echo "generated files are not committed: run 'make generate' and commit"; exit 1; }

.PHONY: sbom
sbom: $(TOOLS) ## Write a software bill of materials (CycloneDX) of each module to bin/sbom.
	@$(SBOM) --version '$(VERSION)' --to bin/sbom $(MODULES)

# VULNDB is the database of vulnerabilities, or a copy of it: a URL, or file:///folder.
VULNDB ?= https://vuln.go.dev
.PHONY: vulncheck
vulncheck: $(TOOLS) ## Look for known vulnerabilities in each module, and record the result in bin/vulncheck.
	@$(VULNCHECK) --db '$(VULNDB)' --to bin/vulncheck $(MODULES)

.PHONY: bench
bench: build bin/bench bin/peak ## Measure and print the figures of docs/performance.md.
	go test -run '^$$' -bench . -benchtime 1x ./internal/...
	bin/bench

FUZZTIME ?= 20s
FUZZJOBS ?= $(shell nproc)
.PHONY: fuzz
fuzz: bin/devcluster ## Run every fuzz target for FUZZTIME (20s), FUZZJOBS of them side by side.
	@$(WITH_SERVERS) test/fuzz.sh $(FUZZTIME) $(FUZZJOBS)

# REF is where the image goes: a reference, a .tar file, or "containerd".
REF ?= bin/mainstay-image.tar
IMAGE := $(if $(filter containerd,$(REF)),--output bin/mainstay-image.tar,$(if $(filter %.tar,$(REF)),--output,--push) $(REF))
.PHONY: images
images: build ## Build the image, without a container engine, into REF: a registry's reference, a .tar file, or "containerd".
	bin/mainstay image build --binary bin/mainstay $(IMAGE)
	$(if $(filter containerd,$(REF)),ctr --namespace k8s.io images import bin/mainstay-image.tar)

# RELEASE is the version of a release, PREVIOUS those from which clusters may be updated to it. KEYS is a file with the
# OpenPGP keys that sign its successors, STORE the URL of their signatures: without both, its clusters refuse updates.
RELEASE ?= $(or $(shell echo '$(VERSION)' | sed -nE 's/^v?([0-9]+\.[0-9]+\.[0-9]+.*)$$/\1/p'),0.0.1-g$(VERSION))
MODULE := github.com/mainstay-dev/mainstay
RELEASE_USER := bin/releases/$(RELEASE)/user
.PHONY: release
release: bin/releases/$(RELEASE)/mainstay bin/release-image ## Build Mainstay's own release image, without a container engine, into bin/release, an OCI layout, or REF, a registry's reference. The program and manifests for users, with the image by digest, are in bin/releases/RELEASE/user.
	mkdir -p $(RELEASE_USER)
	bin/release-image --program $< --version '$(RELEASE)' --previous '$(PREVIOUS)' --verification-key '$(KEYS)' --verification-store '$(STORE)' $(if $(filter file,$(origin REF)),--layout bin/release,--ref '$(REF)') --image-file $(RELEASE_USER)/image.txt | tee $(RELEASE_USER)/images.txt
	go build -ldflags "-s -w -X $(MODULE)/internal/cli/terminal.version=$(RELEASE) -X $(MODULE)/internal/cli/install.releasedImage=$$(cat $(RELEASE_USER)/image.txt)" -o $(RELEASE_USER)/mainstay ./cmd/mainstay
	$(RELEASE_USER)/mainstay install --dry-run=client -o yaml > $(RELEASE_USER)/mainstay.yaml
	$(RELEASE_USER)/mainstay install --with console --dry-run=client -o yaml > $(RELEASE_USER)/mainstay-with-console.yaml

##@ Files

bin/mainstay: $(GO_FILES)
	go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/mainstay

bin/opm: $(GO_FILES)
	go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/opm

bin/hello-operator: $(GO_FILES)
	go build -ldflags "-s -w" -o $@ ./examples/hello-operator

bin/demo: $(GO_FILES)
	go build -ldflags "-s -w" -o $@ ./test/demo

bin/e2e-console: $(GO_FILES)
	go build -o $@ ./test/console

bin/democluster: $(GO_FILES)
	go build -ldflags "-s -w" -o $@ ./test/democluster

bin/release-image: $(GO_FILES)
	go build -ldflags "-s -w" -o $@ ./cmd/release-image

# A release runs the program that calls itself by its version.
bin/releases/%/mainstay: $(GO_FILES)
	go build -ldflags "-s -w -X github.com/mainstay-dev/mainstay/internal/cli/terminal.version=$*" -o $@ ./cmd/mainstay

bin/scenario-catalogs: $(GO_FILES)
	go build -ldflags "-s -w" -o $@ ./test/scenario/catalogs

bin/scenario-extensions: $(GO_FILES)
	go build -ldflags "-s -w" -o $@ ./test/scenario/extensions

bin/scenario-subscriptions: $(GO_FILES)
	go build -ldflags "-s -w" -o $@ ./test/scenario/subscriptions

bin/scenario-operators: $(GO_FILES)
	go build -ldflags "-s -w" -o $@ ./test/scenario/operators

bin/bench: $(GO_FILES)
	go build -o $@ ./bench/cmd/bench

bin/devcluster: $(DEVCLUSTER_FILES)
	@echo "building bin/devcluster: Kubernetes itself, about five minutes the first time"
	cd devcluster && go build -ldflags "$(DEVCLUSTER_LDFLAGS)" -o ../$@ .
	mkdir -p bin/k8s && for name in etcd kube-apiserver kubectl; do ln -sfn ../devcluster bin/k8s/$$name; done

bin/peak: bench/cmd/peak/main.go
	go build -ldflags "-s -w" -o $@ ./bench/cmd/peak

$(TOOLS): tools/go.mod tools/go.sum $(wildcard tools/*/*.go)
	go build -C tools -o ../bin/tools/ tool
	@touch $@

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin
