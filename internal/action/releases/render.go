package releases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Render writes the manifests for the bootstrap of a cluster: those of the operator that
// applies the release, and those that run the operator before the cluster exists.
type Render struct {
	Source
	// Image is the release: a reference, or a version that Resolver finds. With PayloadDir
	// it must be a reference and is used only in manifests.
	Image string
	// PayloadDir is the root of a release image, or another folder with a payload. Empty
	// means that the release is read from its registry.
	PayloadDir string
	// To is the output folder. Files are written into its folders "manifests" and
	// "bootstrap".
	To string
	// Profile is the cluster profile. Empty means release.DefaultProfile.
	Profile string
	// ClusterVersionFile contains the ClusterVersion of the cluster, whose capabilities and
	// overrides apply. Empty means all capabilities.
	ClusterVersionFile string
	// FeatureGateFile contains the FeatureGate of the cluster. Empty means that only gates
	// that are on by default are enabled.
	FeatureGateFile string
}

// Rendered is the result of Render.
type Rendered struct {
	// Version is the version of the release.
	Version string
	// Files are the sorted paths of the written files.
	Files []string
}

// Run writes the files.
func (a *Render) Run(ctx context.Context) (*Rendered, error) {
	if err := a.validateOptions(); err != nil {
		return nil, &report.Error{Object: releaseObject(a.Image), Err: err}
	}

	payload, _, err := a.loadPayload(ctx, a.Image, a.PayloadDir, release.Options{
		ReleaseImage: a.Image, ClusterProfile: a.Profile, StrictTemplates: true, Bootstrap: true,
	})
	if err != nil {
		return nil, err
	}

	included, overrides, err := a.readClusterState(payload.Metadata.Version)
	if err != nil {
		return nil, err
	}

	version, err := semver.Parse(payload.Metadata.Version)
	if err != nil {
		return nil, err
	}

	rendered := &Rendered{Version: payload.Metadata.Version}
	for folder, manifests := range map[string][]release.Manifest{
		release.FolderOwn: payload.ForBootstrap(), release.FolderBootstrap: payload.Bootstrap,
	} {
		chosen := slices.DeleteFunc(included.selectManifests(manifests, version.Major), func(m release.Manifest) bool { return release.Overridden(m, overrides) })
		files, err := encodeByFile(chosen)
		if err != nil {
			return nil, &report.Error{Object: releaseObject(a.Image), Err: err}
		}
		if _, err := writeFilesToFolder(filepath.Join(a.To, folder), files); err != nil {
			return nil, err
		}

		for name := range maps.Keys(files) {
			rendered.Files = append(rendered.Files, path.Join(folder, name))
		}
	}

	slices.Sort(rendered.Files)
	return rendered, nil
}

// validateOptions refuses incomplete options.
func (a *Render) validateOptions() error {
	switch {
	case a.To == "":
		return errors.New("no destination is specified: name a folder with --output-dir")
	case a.PayloadDir != "" && a.Image == "":
		return errors.New("the manifests of a payload in a folder name the release image: name it with --release-image")
	default:
		return nil
	}
}

// readClusterState reads from the files of the user which manifests and overrides the new
// cluster has.
func (a *Render) readClusterState(version string) (Included, []release.Override, error) {
	included := Included{Profile: a.Profile}
	var gates featureGateObject
	if err := readUserObject(a.FeatureGateFile, "FeatureGate", &gates); err != nil {
		return included, nil, err
	}

	included.FeatureSet, included.FeatureGates = gates.Spec.FeatureSet, gates.enabledGates(version)
	var cv configv1.ClusterVersion
	if err := readUserObject(a.ClusterVersionFile, "ClusterVersion", &cv); err != nil {
		return included, nil, err
	}

	included, err := included.mergeCapabilities("spec.capabilities", cv.Spec.Capabilities)
	if err != nil {
		return included, nil, &report.Error{Object: fmt.Sprintf("file %q", a.ClusterVersionFile), Err: err}
	}

	var overrides []release.Override
	for _, o := range cv.Spec.Overrides {
		overrides = append(overrides, release.Override{
			Key:       release.Key{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
			Unmanaged: o.Unmanaged,
		})
	}

	return included, overrides, nil
}

// featureGateObject contains the fields of a FeatureGate that are read.
type featureGateObject struct {
	Spec struct {
		FeatureSet      string `json:"featureSet"`
		CustomNoUpgrade struct {
			Enabled []string `json:"enabled"`
		} `json:"customNoUpgrade"`
	} `json:"spec"`
	Status struct {
		FeatureGates []struct {
			Version string `json:"version"`
			Enabled []struct {
				Name string `json:"name"`
			} `json:"enabled"`
		} `json:"featureGates"`
	} `json:"status"`
}

// enabledGates returns the gates that the status lists for a version, or otherwise those
// that the spec enables.
func (g featureGateObject) enabledGates(version string) []string {
	for _, gates := range g.Status.FeatureGates {
		if gates.Version != version {
			continue
		}
		names := []string{}
		for _, gate := range gates.Enabled {
			names = append(names, gate.Name)
		}
		return names
	}

	return g.Spec.CustomNoUpgrade.Enabled
}

// readUserObject decodes an object of a kind from a user's file. It does nothing if name is
// empty.
func readUserObject(name, kind string, into any) error {
	if name == "" {
		return nil
	}

	data, err := readUserFile(name)
	if err != nil {
		return err
	}

	var object map[string]any
	err = yaml.Unmarshal(data, &object)
	switch found := object["kind"]; {
	case err != nil:
		err = fmt.Errorf("cannot be read as a %s: it is not an object in YAML or JSON", kind)
	case found != kind:
		err = fmt.Errorf("must be a %s, not %v", kind, found)
	default:
		err = yaml.Unmarshal(data, into)
	}

	if err != nil {
		return &report.Error{Object: fmt.Sprintf("file %q", name), Err: err}
	}

	return nil
}
