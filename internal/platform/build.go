// Package platform builds Mainstay's own release image with only the built program. The manifests
// are those that `mainstay install` applies and those of the folder config. One image contains
// all components. `make release` and `make demo-cluster` share the package.
//
// Other platforms build their releases as docs/release-images.md describes.
package platform

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
	// componentName is the name of the image of all components in a release. The release image
	// is also based on it.
	componentName = "cluster-version-operator"
	// placeholderImage is the reference of that image in the manifests.
	placeholderImage = "ghcr.io/mainstay-dev/mainstay:latest"
	// includeAnnotation makes a cluster apply a manifest. capabilityAnnotation restricts this to
	// clusters with the capability.
	includeAnnotation    = "include.release.openshift.io/self-managed-high-availability"
	capabilityAnnotation = "capability.openshift.io/name"
)

// platformPart is a component of the platform. Its manifests keep this order.
type platformPart struct {
	runlevel, name string
	// selfManaged is set for the program that applies the release. Its manifests are templates.
	selfManaged bool
	// files are below config. If installed is set, the manifests of `mainstay install` follow
	// them.
	files     []string
	installed bool
	// capability is the capability that a cluster needs for this part. Empty means every cluster.
	capability string
	// reportsVersion passes the version of the release to the Deployments, which report it in
	// their ClusterOperators.
	reportsVersion bool
	// renames are the names in a release of namespaces in the files, and of arguments with these
	// names.
	renames map[string]string
	// operator is the file with the ClusterOperators that an update waits for. It comes last.
	operator string
}

// classicRenames are the namespaces of OLM Classic on a platform. Its global catalog namespace is
// that of the marketplace.
var classicRenames = map[string]string{
	"olm": "openshift-operator-lifecycle-manager", "operators": "openshift-operators",
	"--global-namespace=olm": "--global-namespace=openshift-marketplace", "--namespace=olm": "--namespace=openshift-marketplace",
	"--protectedCopiedCSVNamespaces=": "--protectedCopiedCSVNamespaces=openshift",
}

// catalogsFile is the file of the ConfigMap with the default catalogs.
const catalogsFile = "defaults.yaml"

var platformParts = []platformPart{
	{runlevel: "00", name: componentName, selfManaged: true, files: []string{
		"platform/config.openshift.io_clusteroperators.yaml", "platform/config.openshift.io_clusterversions.yaml",
		"platform/config.openshift.io_imagedigestmirrorsets.yaml", "platform/config.openshift.io_imagetagmirrorsets.yaml",
		"platform/operator.openshift.io_imagecontentsourcepolicies.yaml",
		"cluster-version-operator/namespaces.yaml", "cluster-version-operator/service_account.yaml",
		"cluster-version-operator/role.yaml", "cluster-version-operator/rbac.yaml", "cluster-version-operator/cluster_admin.yaml",
		"cluster-version-operator/network_policy.yaml", "cluster-version-operator/service.yaml", "cluster-version-operator/deployment.yaml",
	}},
	{runlevel: "50", name: "olm", installed: true, operator: "release/olm-operator.yaml"},
	{runlevel: "50", name: "operator-lifecycle-manager", capability: "OperatorLifecycleManager", reportsVersion: true, renames: classicRenames, files: []string{
		"classic/crd/operators.coreos.com_*.yaml",
		"classic/olm-operator/namespaces.yaml", "classic/olm-operator/service_account.yaml", "classic/olm-operator/role.yaml",
		"classic/olm-operator/rbac.yaml", "classic/olm-operator/aggregated_roles.yaml", "classic/olm-operator/network_policy.yaml",
		"classic/catalog-operator/service_account.yaml", "classic/catalog-operator/role.yaml", "classic/catalog-operator/rbac.yaml",
		"classic/olm-operator/service.yaml", "classic/olm-operator/config.yaml", "classic/olm-operator/deployment.yaml",
		"classic/catalog-operator/service.yaml", "classic/catalog-operator/deployment.yaml",
		"classic/packageserver/service_account.yaml", "classic/packageserver/role.yaml", "classic/packageserver/rbac.yaml",
		"classic/packageserver/disruption_budget.yaml", "classic/packageserver/clusterserviceversion.yaml",
		"release/copied-csv-viewers.yaml",
	}, operator: "release/operator-lifecycle-manager-operators.yaml"},
	{runlevel: "50", name: "marketplace", capability: "marketplace", reportsVersion: true, files: []string{
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

// Build builds a release and pushes it, with the image of the components.
type Build struct {
	// Root is the root of the repository.
	Root string
	// Program is the statically linked mainstay program of this release.
	Program string
	// Version is the version of the release. Previous are the versions from which clusters may be
	// updated to it.
	Version  string
	Previous []string
	// Image and Release are the references to which the images are pushed, with tags.
	Image, Release string
	// Name is the repository of the components' image in the release. Empty means the repository
	// of Image.
	Name string
	// RegistriesConf is a registries.conf file that locates Name. It may be empty.
	RegistriesConf string
	// Parts are the components to include. Empty means all.
	Parts []string
	// Catalogs are the default catalogs: manifests of CatalogSources by file name.
	Catalogs map[string]string
	// More are further manifests of the release by file name.
	More map[string]string
	// Flags are further flags of `mainstay release new`.
	Flags []string
	// Edit, if set, modifies an object before it is written.
	Edit func(object map[string]any) error
}

// Images are the images of a release, with digests.
type Images struct {
	Component string
	Release   string
}

// Run builds the release and pushes it. It writes the manifests to dir, which must be empty.
func (b *Build) Run(ctx context.Context, dir string) (*Images, error) {
	if err := b.Manifests(ctx, dir); err != nil {
		return nil, fmt.Errorf("writing the manifests: %w", err)
	}

	pushed, err := b.runMainstay(ctx, "image", "build", "--binary", b.Program, "--push", b.Image, "-o", "json")
	if err != nil {
		return nil, err
	}

	images := &Images{}
	if images.Component, err = parsePushedReference(pushed); err != nil {
		return nil, err
	}

	named := images.Component
	if b.Name != "" {
		_, digest, _ := strings.Cut(named, "@")
		named = b.Name + "@" + digest
	}

	args := []string{"release", "new", "--from-dir", dir, "--name", b.Version, "--to-image", b.Release, componentName + "=" + named, "-o", "json"}
	if len(b.Previous) > 0 {
		args = append(args, "--previous", strings.Join(b.Previous, ","))
	}
	if b.RegistriesConf != "" {
		args = append(args, "--registries-conf", b.RegistriesConf)
	}

	pushed, err = b.runMainstay(ctx, append(args, b.Flags...)...)
	if err != nil {
		return nil, err
	}

	images.Release, err = parsePushedReference(pushed)
	return images, err
}

// parsePushedReference parses the reference of a pushed image from command output.
func parsePushedReference(printed []byte) (string, error) {
	var pushed struct {
		Reference string `json:"reference"`
	}
	if err := json.Unmarshal(printed, &pushed); err != nil || pushed.Reference == "" {
		return "", errors.Join(err, fmt.Errorf("no image was pushed: %s", printed))
	}
	return pushed.Reference, nil
}

// Manifests writes the manifests of the release into a folder for `mainstay release new`. Those
// of the release's own operator go to manifests, all others to release-manifests.
func (b *Build) Manifests(ctx context.Context, dir string) error {
	for _, p := range platformParts {
		if len(b.Parts) > 0 && !slices.Contains(b.Parts, p.name) {
			continue
		}
		if err := b.writePart(ctx, dir, p); err != nil {
			return err
		}
	}

	more := map[string]string{"image-references": `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","spec":{"tags":[{"name":"` + componentName +
		`","from":{"kind":"DockerImage","name":"` + placeholderImage + `"}}]}}` + "\n"}
	for _, files := range []map[string]string{more, b.More} {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, "release-manifests", name), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}

	return nil
}

// writePart writes the manifests of a part.
func (b *Build) writePart(ctx context.Context, dir string, p platformPart) error {
	documents, err := b.readDocuments(ctx, p)
	if err != nil {
		return err
	}

	for i, document := range documents {
		if err := b.adaptDocument(p, document); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if b.Edit != nil {
			if err := b.Edit(document); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		if err := p.writeManifest(dir, i, document); err != nil {
			return err
		}
	}

	return nil
}

// readDocuments returns the objects of a part in order.
func (b *Build) readDocuments(ctx context.Context, p platformPart) ([]map[string]any, error) {
	texts, err := b.readConfig(p.files)
	if err != nil {
		return nil, err
	}

	if p.installed {
		text, err := b.runMainstay(ctx, "install", "--image", placeholderImage, "--dry-run=client", "-o", "yaml")
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}

	if p.operator != "" {
		operator, err := b.readConfig([]string{p.operator})
		if err != nil {
			return nil, err
		}
		texts = append(texts, operator...)
	}

	var documents []map[string]any
	for _, text := range texts {
		parsed, err := parseDocuments(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		documents = append(documents, parsed...)
	}

	return documents, nil
}

// readConfig returns the contents of the files in config that match the patterns. Each pattern must
// match a file.
func (b *Build) readConfig(patterns []string) ([][]byte, error) {
	var texts [][]byte
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(b.Root, "config", filepath.FromSlash(pattern)))
		if err != nil || len(names) == 0 {
			return nil, errors.Join(err, fmt.Errorf("config has no %s", pattern))
		}

		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
	}

	return texts, nil
}

// parseDocuments returns the non-empty documents of a YAML text.
func parseDocuments(text []byte) ([]map[string]any, error) {
	var documents []map[string]any
	for one := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
		document := map[string]any{}
		if err := yaml.Unmarshal(one, &document); err != nil {
			return nil, err
		}
		if len(document) > 0 {
			documents = append(documents, document)
		}
	}

	return documents, nil
}

// writeManifest writes one object, with the annotations for clusters to apply it.
func (p platformPart) writeManifest(dir string, number int, document map[string]any) error {
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

	annotations[includeAnnotation] = "true"
	if p.capability != "" {
		annotations[capabilityAnnotation] = p.capability
	}

	text, err := yaml.Marshal(document)
	if err != nil {
		return err
	}

	folder := filepath.Join(dir, "release-manifests")
	if p.selfManaged {
		folder = filepath.Join(dir, "manifests")
		// It runs in the release image itself. Only the operator that loads the release knows
		// the reference of that image.
		text = bytes.ReplaceAll(text, []byte(placeholderImage), []byte("'{{.ReleaseImage}}'"))
	}

	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}

	file := fmt.Sprintf("0000_%s_%s_%02d_%s-%s.yaml", p.runlevel, p.name, number, strings.ToLower(kind), strings.ReplaceAll(name, ":", "-"))
	return os.WriteFile(filepath.Join(folder, file), text, 0o644)
}

// runMainstay runs the program of the release and returns its output.
func (b *Build) runMainstay(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.Program, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("mainstay %s: %w\n%s", strings.Join(args, " "), err, failure.Bytes())
	}

	return out.Bytes(), nil
}
