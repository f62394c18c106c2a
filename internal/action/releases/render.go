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

// Render writes what a machine that makes a cluster needs of a release: the manifests of the
// operator that applies it, and those that run the operator before there is a cluster.
type Render struct {
	Source
	// Image is the release: a reference, or a version that the resolver knows. With PayloadDir
	// it is only what manifests name, and must be a reference.
	Image string
	// PayloadDir is the root of a release image, or another folder with a payload. Empty: the
	// release is read from its registry.
	PayloadDir string
	// To is the folder to write to, into "manifests" and "bootstrap".
	To string
	// Profile of the cluster. Empty means release.DefaultProfile.
	Profile string
	// ClusterVersionFile has the cluster's ClusterVersion, whose capabilities and overrides
	// count. Empty: it has all capabilities.
	ClusterVersionFile string
	// FeatureGateFile has the cluster's FeatureGate. Empty: none that is off by default is on.
	FeatureGateFile string
}

// Rendered is what was written.
type Rendered struct {
	// Version of the release.
	Version string
	// Files are the paths of those that were written, sorted.
	Files []string
}

// Run writes the files.
func (a *Render) Run(ctx context.Context) (*Rendered, error) {
	if err := a.check(); err != nil {
		return nil, &report.Error{Object: objectOf(a.Image), Err: err}
	}

	payload, _, err := a.payload(ctx, a.Image, a.PayloadDir, release.Options{
		ReleaseImage: a.Image, ClusterProfile: a.Profile, StrictTemplates: true, Bootstrap: true,
	})
	if err != nil {
		return nil, err
	}

	included, overrides, err := a.cluster(payload.Metadata.Version)
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
		chosen := slices.DeleteFunc(included.choose(manifests, version.Major), func(m release.Manifest) bool { return release.Overridden(m, overrides) })
		files, err := encode(chosen)
		if err != nil {
			return nil, &report.Error{Object: objectOf(a.Image), Err: err}
		}
		if _, err := write(filepath.Join(a.To, folder), files); err != nil {
			return nil, err
		}

		for name := range maps.Keys(files) {
			rendered.Files = append(rendered.Files, path.Join(folder, name))
		}
	}

	slices.Sort(rendered.Files)
	return rendered, nil
}

func (a *Render) check() error {
	switch {
	case a.To == "":
		return errors.New("nowhere to write it: name a folder with --output-dir")
	case a.PayloadDir != "" && a.Image == "":
		return errors.New("the manifests of a payload in a folder name the release image: name it with --release-image")
	default:
		return nil
	}
}

// cluster tells which manifests the cluster has that is to be made.
func (a *Render) cluster(version string) (Included, []release.Override, error) {
	included := Included{Profile: a.Profile}
	var gates featureGate
	if err := readObject(a.FeatureGateFile, "FeatureGate", &gates); err != nil {
		return included, nil, err
	}

	included.FeatureSet, included.FeatureGates = gates.Spec.FeatureSet, gates.enabled(version)
	var cv configv1.ClusterVersion
	if err := readObject(a.ClusterVersionFile, "ClusterVersion", &cv); err != nil {
		return included, nil, err
	}

	included, err := included.withCapabilities("spec.capabilities", cv.Spec.Capabilities)
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

// featureGate is what is read of a FeatureGate.
type featureGate struct {
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

// enabled are the gates that are on in a version, or else those that are asked for.
func (g featureGate) enabled(version string) []string {
	for _, of := range g.Status.FeatureGates {
		if of.Version != version {
			continue
		}
		names := []string{}
		for _, gate := range of.Enabled {
			names = append(names, gate.Name)
		}
		return names
	}

	return g.Spec.CustomNoUpgrade.Enabled
}

// readObject reads the object of a kind from a file of the user. No file has nothing.
func readObject(name, kind string, into any) error {
	if name == "" {
		return nil
	}

	data, err := readFile(name)
	if err != nil {
		return err
	}

	var object map[string]any
	err = yaml.Unmarshal(data, &object)
	switch found := object["kind"]; {
	case err != nil:
		err = fmt.Errorf("cannot be read as a %s: it is no object in YAML or JSON", kind)
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
