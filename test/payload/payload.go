// Package payload makes Mainstay's own release image, by the built program alone: the manifests
// are those that `mainstay install` applies and those of the folder config, and one image holds
// all components. `make release` and `make demo-cluster` share it.
//
// It is not how other platforms are released: docs/release-images.md says that.
package payload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// component is what the image of all components is called in a release. It is also the
	// one that a release is built upon.
	component = "cluster-version-operator"
	// placeholder is how the manifests name that image.
	placeholder = "ghcr.io/mainstay-dev/mainstay:latest"
	// included has a cluster apply a manifest, and capability only one that has the capability.
	included   = "include.release.openshift.io/self-managed-high-availability"
	capability = "capability.openshift.io/name"
)

// part is a component of the platform: its manifests are in this order.
type part struct {
	runlevel, name string
	// own manifests are of the program that applies the release. They are templates.
	own bool
	// files are below config; installed adds what `mainstay install` applies, behind them.
	files     []string
	installed bool
	// capability is the one that a cluster must have for any of this to exist. Empty: every cluster has it.
	capability string
	// reports has its Deployments know the version of the release, for their ClusterOperators.
	reports bool
	// moved says how what the files name is called in a release: namespaces, and arguments that name them.
	moved map[string]string
	// operator is the file with the ClusterOperators that an update waits for, behind all others.
	operator string
}

// classicPlaces are where OLM Classic is on a platform. Its catalogs that all namespaces see are those of the
// marketplace.
var classicPlaces = map[string]string{
	"olm": "openshift-operator-lifecycle-manager", "operators": "openshift-operators",
	"--global-namespace=olm": "--global-namespace=openshift-marketplace", "--namespace=olm": "--namespace=openshift-marketplace",
}

// catalogsFile has the ConfigMap whose keys are files with default catalogs.
const catalogsFile = "defaults.yaml"

var parts = []part{
	{runlevel: "00", name: component, own: true, files: []string{
		"platform/config.openshift.io_clusteroperators.yaml", "platform/config.openshift.io_clusterversions.yaml",
		"platform/config.openshift.io_imagedigestmirrorsets.yaml", "platform/config.openshift.io_imagetagmirrorsets.yaml",
		"platform/operator.openshift.io_imagecontentsourcepolicies.yaml",
		"cluster-version-operator/namespaces.yaml", "cluster-version-operator/service_account.yaml",
		"cluster-version-operator/role.yaml", "cluster-version-operator/rbac.yaml", "cluster-version-operator/cluster_admin.yaml",
		"cluster-version-operator/network_policy.yaml", "cluster-version-operator/service.yaml", "cluster-version-operator/deployment.yaml",
	}},
	{runlevel: "50", name: "olm", installed: true, operator: "release/olm-operator.yaml"},
	{runlevel: "50", name: "operator-lifecycle-manager", capability: "OperatorLifecycleManager", reports: true, moved: classicPlaces, files: []string{
		"classic/crd/operators.coreos.com_*.yaml",
		"classic/olm-operator/namespaces.yaml", "classic/olm-operator/service_account.yaml", "classic/olm-operator/role.yaml",
		"classic/olm-operator/rbac.yaml", "classic/olm-operator/aggregated_roles.yaml", "classic/olm-operator/network_policy.yaml",
		"classic/catalog-operator/service_account.yaml", "classic/catalog-operator/role.yaml", "classic/catalog-operator/rbac.yaml",
		"classic/olm-operator/service.yaml", "classic/olm-operator/config.yaml", "classic/olm-operator/deployment.yaml",
		"classic/catalog-operator/service.yaml", "classic/catalog-operator/deployment.yaml",
		"classic/packageserver/service_account.yaml", "classic/packageserver/role.yaml", "classic/packageserver/rbac.yaml",
		"classic/packageserver/disruption_budget.yaml", "classic/packageserver/clusterserviceversion.yaml",
	}, operator: "release/operator-lifecycle-manager-operators.yaml"},
	{runlevel: "50", name: "marketplace", capability: "marketplace", reports: true, files: []string{
		"classic/marketplace/config.openshift.io_operatorhubs.yaml", "classic/marketplace/namespace.yaml",
		"classic/marketplace/service_account.yaml", "classic/marketplace/role.yaml", "classic/marketplace/rbac.yaml",
		"classic/marketplace/network_policy.yaml", "classic/marketplace/service.yaml", "classic/marketplace/" + catalogsFile,
		"classic/marketplace/deployment.yaml",
	}, operator: "release/marketplace-operator.yaml"},
	{runlevel: "80", name: "machine-config", files: []string{
		"platform/machineconfiguration.openshift.io_machineconfigpools.yaml", "platform/machineconfiguration.openshift.io_machineconfigs.yaml",
		"platform/operator.openshift.io_machineconfigurations.yaml",
		"machine-config/controller_role.yaml", "machine-config/daemon_role.yaml", "machine-config/server_role.yaml",
		"machine-config/namespace.yaml", "machine-config/service_account.yaml", "machine-config/rbac.yaml", "machine-config/admission.yaml",
		"machine-config/network_policy.yaml", "release/machine-config.yaml", "machine-config/server.yaml", "release/pools.yaml",
	}, operator: "release/machine-config-operator.yaml"},
}

// Build makes a release and pushes it, with the image of the components.
type Build struct {
	// Root is the root of the repository.
	Root string
	// Program is the built mainstay of this release, statically linked.
	Program string
	// Version of the release, and Previous the versions from which clusters may be updated to
	// it.
	Version  string
	Previous []string
	// Image and Release are where the images are pushed: repositories with tags.
	Image, Release string
	// Name is the repository by which the release names the image of the components. Empty
	// means that of Image.
	Name string
	// RegistriesConf is a file that says where Name is. Empty: where it says.
	RegistriesConf string
	// Parts are the components whose manifests are written. Empty: all.
	Parts []string
	// Catalogs are the default catalogs: manifests of CatalogSources, by names of files.
	Catalogs map[string]string
	// More are further manifests of the release, by the name of their file.
	More map[string]string
	// Flags are further ones of `mainstay release new`.
	Flags []string
	// Edit changes an object before it is written. Nil leaves them as they are.
	Edit func(object map[string]any) error
}

// Images are the images of a release, by digest.
type Images struct {
	Component string
	Release   string
}

// Run builds and pushes. It works in dir, which must be empty, and leaves the manifests there.
func (b *Build) Run(ctx context.Context, dir string) (*Images, error) {
	if err := b.Manifests(ctx, dir); err != nil {
		return nil, fmt.Errorf("writing the manifests: %w", err)
	}

	pushed, err := b.mainstay(ctx, "image", "build", "--binary", b.Program, "--push", b.Image, "-o", "json")
	if err != nil {
		return nil, err
	}

	images := &Images{}
	if images.Component, err = reference(pushed); err != nil {
		return nil, err
	}

	named := images.Component
	if b.Name != "" {
		_, digest, _ := strings.Cut(named, "@")
		named = b.Name + "@" + digest
	}

	args := []string{"release", "new", "--from-dir", dir, "--name", b.Version, "--to-image", b.Release, component + "=" + named, "-o", "json"}
	if len(b.Previous) > 0 {
		args = append(args, "--previous", strings.Join(b.Previous, ","))
	}
	if b.RegistriesConf != "" {
		args = append(args, "--registries-conf", b.RegistriesConf)
	}

	pushed, err = b.mainstay(ctx, append(args, b.Flags...)...)
	if err != nil {
		return nil, err
	}

	images.Release, err = reference(pushed)
	return images, err
}

// reference reads what was pushed.
func reference(printed []byte) (string, error) {
	var pushed struct {
		Reference string `json:"reference"`
	}
	if err := json.Unmarshal(printed, &pushed); err != nil || pushed.Reference == "" {
		return "", errors.Join(err, fmt.Errorf("no image was pushed: %s", printed))
	}
	return pushed.Reference, nil
}

// Manifests writes the manifests of the release into a folder, as `mainstay release new` reads
// them: what is for the release's own operator in manifests, all else in release-manifests.
func (b *Build) Manifests(ctx context.Context, dir string) error {
	for _, p := range parts {
		if len(b.Parts) > 0 && !slices.Contains(b.Parts, p.name) {
			continue
		}
		documents, err := b.documents(ctx, p)
		if err != nil {
			return err
		}
		for i, document := range documents {
			if err := b.place(p, document); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if b.Edit != nil {
				if err := b.Edit(document); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
			}
			if err := p.write(dir, i, document); err != nil {
				return err
			}
		}
	}

	more := map[string]string{"image-references": `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","spec":{"tags":[{"name":"` + component +
		`","from":{"kind":"DockerImage","name":"` + placeholder + `"}}]}}` + "\n"}
	for _, files := range []map[string]string{more, b.More} {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, "release-manifests", name), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}

	return nil
}

// documents returns the objects of a part in order.
func (b *Build) documents(ctx context.Context, p part) ([]map[string]any, error) {
	texts := make([][]byte, 0, len(p.files)+2)
	read := func(files []string) error {
		for _, pattern := range files {
			names, err := filepath.Glob(filepath.Join(b.Root, "config", filepath.FromSlash(pattern)))
			if err != nil || len(names) == 0 {
				return errors.Join(err, fmt.Errorf("config has no %s", pattern))
			}
			for _, name := range names {
				text, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				texts = append(texts, text)
			}
		}
		return nil
	}
	if err := read(p.files); err != nil {
		return nil, err
	}

	if p.installed {
		text, err := b.mainstay(ctx, "install", "--image", placeholder, "--dry-run=client", "-o", "yaml")
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}

	if p.operator != "" {
		if err := read([]string{p.operator}); err != nil {
			return nil, err
		}
	}

	var documents []map[string]any
	for _, text := range texts {
		for one := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
			document := map[string]any{}
			if err := yaml.Unmarshal(one, &document); err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if len(document) > 0 {
				documents = append(documents, document)
			}
		}
	}

	return documents, nil
}

// write writes one object, marked as one that clusters apply.
func (p part) write(dir string, number int, document map[string]any) error {
	metadata, ok := document["metadata"].(map[string]any)
	kind, _ := document["kind"].(string)
	name, _ := metadata["name"].(string)
	if !ok || kind == "" || name == "" {
		return fmt.Errorf("%s: document %d has no kind or no name", p.name, number)
	}

	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}

	annotations[included] = "true"
	if p.capability != "" {
		annotations[capability] = p.capability
	}

	text, err := yaml.Marshal(document)
	if err != nil {
		return err
	}

	folder := filepath.Join(dir, "release-manifests")
	if p.own {
		folder = filepath.Join(dir, "manifests")
		// It runs in the release image itself, which nothing but the operator that loads the
		// release can name.
		text = bytes.ReplaceAll(text, []byte(placeholder), []byte("'{{.ReleaseImage}}'"))
	}

	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}

	file := fmt.Sprintf("0000_%s_%s_%02d_%s-%s.yaml", p.runlevel, p.name, number, strings.ToLower(kind), strings.ReplaceAll(name, ":", "-"))
	return os.WriteFile(filepath.Join(folder, file), text, 0o644)
}

// mainstay runs the program of the release and gives what it printed.
func (b *Build) mainstay(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.Program, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("mainstay %s: %w\n%s", strings.Join(args, " "), err, failure.Bytes())
	}

	return out.Bytes(), nil
}
