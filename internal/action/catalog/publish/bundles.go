package publish

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/blang/semver/v4"
	"go.yaml.in/yaml/v3"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// PushedBundle is a bundle in a registry.
type PushedBundle struct {
	Package string `json:"package"`
	// Name is the name of the bundle's ClusterServiceVersion.
	Name string `json:"name"`
	// Version is empty if the bundle has no semantic version.
	Version string `json:"version"`
	// Reference is <repository>@<digest>.
	Reference string `json:"reference"`
}

// BundlePush builds the image of a bundle without a container engine and pushes it.
type BundlePush struct {
	Registry catalogs.Registry
	Progress report.Progress

	// Dir is the folder of the bundle. It contains the folders manifests and metadata.
	Dir string
	// Ref is the repository and tag that the image is pushed to.
	Ref string
}

// Run loads the bundle, which must be valid, and pushes it.
func (a *BundlePush) Run(ctx context.Context) (*PushedBundle, error) {
	fsys, done, err := catalogs.OpenFolder(a.Dir)
	if err != nil {
		return nil, err
	}
	defer done()
	b, built, err := buildBundle(fsys, fmt.Sprintf("bundle %q", a.Dir))
	if err != nil {
		return nil, err
	}

	catalogs.WarnBundle(a.Progress, b)
	warnIfNotInstallable(a.Progress, b)
	reference, err := a.Registry.Client(a.Ref).Push(ctx, a.Ref, nil, built)
	if err != nil {
		return nil, err
	}

	pushed := &PushedBundle{Package: b.Package, Name: b.Name(), Reference: reference}
	if requireSemanticVersion(b) == nil {
		pushed.Version = b.Version.String()
	}

	return pushed, nil
}

// buildBundle loads the bundle of a folder and builds its image. Errors name the object.
func buildBundle(fsys fs.FS, object string) (*bundle.Bundle, *image.Built, error) {
	b, err := bundle.Load(fsys)
	if err == nil {
		err = requireCompleteBundle(b)
	}
	if err != nil {
		return nil, nil, &report.Error{Object: object, Err: err, Advice: "correct the named file; a bundle has the folders manifests and metadata"}
	}

	labels, err := readAnnotations(fsys)
	if err != nil {
		return nil, nil, &report.Error{Object: object, Err: err}
	}

	spec, err := image.BundleSpec(fsys, labels)
	if err != nil {
		return nil, nil, &report.Error{Object: object, Err: err}
	}

	built, err := image.Build(spec)
	if err != nil {
		return nil, nil, &report.Error{Object: object, Err: err}
	}

	return b, built, nil
}

// requireCompleteBundle returns an error for a bundle without a package or with content
// that cannot be installed.
func requireCompleteBundle(b *bundle.Bundle) error {
	switch {
	case len(b.Omitted) > 0:
		return errors.New(strings.Join(b.Omitted, "; "))
	case b.Package == "":
		return fmt.Errorf("%s: %s is not set: it must name the package", annotationsFile, bundle.KeyPackage)
	}
	return nil
}

// requireSemanticVersion returns an error for a bundle without a semantic version, which a
// catalog needs for the order of bundles.
func requireSemanticVersion(b *bundle.Bundle) error {
	version := string(b.CSV.Spec.Version)
	if version == "" {
		return fmt.Errorf("ClusterServiceVersion %q: spec.version is not set", b.Name())
	}
	if _, err := semver.ParseTolerant(version); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: spec.version %q is not a semantic version: %w", b.Name(), version, err)
	}
	return nil
}

// warnIfNotInstallable warns about a bundle that a ClusterExtension cannot install. Other
// installers may support it, so it is no error.
func warnIfNotInstallable(p report.Progress, b *bundle.Bundle) {
	var refused *render.RefusedError
	if errors.As(render.Validate(b), &refused) {
		report.OrQuiet(p).Warn("bundle " + b.Name() + " cannot be installed by a ClusterExtension: " + strings.Join(refused.Reasons, "; "))
	}
}

// annotationsFile is the file that marks a folder as a bundle.
const annotationsFile = "metadata/annotations.yaml"

// readAnnotations returns the annotations of a bundle that bundle.Load has read. The file
// is therefore neither too large nor malformed.
func readAnnotations(fsys fs.FS) (map[string]string, error) {
	data, err := fs.ReadFile(fsys, annotationsFile)
	if err != nil {
		return nil, err
	}

	var content struct {
		Annotations map[string]string `yaml:"annotations"`
	}
	if err := yaml.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("%s: %w", annotationsFile, err)
	}

	return content.Annotations, nil
}

// Limits of the search for bundles in a user's folder.
const (
	maxBundleDepth = 8
	maxBundles     = 10_000
)

// findBundles returns the sorted paths of the folders that contain a bundle. It does not
// search within bundles. It returns an empty list if there is none.
func findBundles(fsys fs.FS) ([]string, error) {
	var found []string
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			return nil
		}
		if strings.Count(name, "/") >= maxBundleDepth {
			return fs.SkipDir
		}

		info, err := fs.Stat(fsys, path.Join(name, annotationsFile))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return nil
		}

		if found = append(found, name); len(found) > maxBundles {
			return fmt.Errorf("it holds more than %d bundles", maxBundles)
		}

		return fs.SkipDir
	})

	return found, err
}

// decodeIcon decodes the base64 data of an icon. It ignores white space, because some
// authors wrap the data.
func decodeIcon(text string) ([]byte, error) {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	if text == "" {
		return nil, errors.New("it is empty")
	}
	return base64.StdEncoding.DecodeString(text)
}
