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

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// PushedBundle is a bundle in a registry.
type PushedBundle struct {
	Package string `json:"package"`
	// Name of the bundle, that of its ClusterServiceVersion.
	Name string `json:"name"`
	// Version is empty for a bundle that states none.
	Version string `json:"version"`
	// Reference is <repository>@<digest>.
	Reference string `json:"reference"`
}

// BundlePush builds an image of a bundle, without a container engine, and pushes it.
type BundlePush struct {
	Registry catalogs.Registry
	Progress report.Progress

	// Dir is the folder of the bundle: it holds manifests and metadata.
	Dir string
	// Ref is where the image goes: a repository and a tag.
	Ref string
}

// Run reads the bundle, which must be valid, and pushes it.
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

	catalogs.Warn(a.Progress, b)
	warnUnfit(a.Progress, b)
	reference, err := a.Registry.Client(a.Ref).Push(ctx, a.Ref, nil, built)
	if err != nil {
		return nil, err
	}

	pushed := &PushedBundle{Package: b.Package, Name: b.Name(), Reference: reference}
	if checkVersion(b) == nil {
		pushed.Version = b.Version.String()
	}

	return pushed, nil
}

// buildBundle reads the bundle of a folder and builds its image. The object names it in
// errors.
func buildBundle(fsys fs.FS, object string) (*bundle.Bundle, *image.Built, error) {
	b, err := bundle.Load(fsys)
	if err == nil {
		err = checkComplete(b)
	}
	if err != nil {
		return nil, nil, &report.Error{Object: object, Err: err, Advice: "correct the named file; a bundle has the folders manifests and metadata"}
	}

	labels, err := annotations(fsys)
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

// checkComplete refuses a bundle with content that nobody could install, or without a package.
func checkComplete(b *bundle.Bundle) error {
	switch {
	case len(b.Omitted) > 0:
		return errors.New(strings.Join(b.Omitted, "; "))
	case b.Package == "":
		return fmt.Errorf("%s: %s is not set: it must name the package", annotationsFile, bundle.KeyPackage)
	}
	return nil
}

// checkVersion refuses a bundle that a catalog cannot order among the versions of its package.
func checkVersion(b *bundle.Bundle) error {
	version := string(b.CSV.Spec.Version)
	if version == "" {
		return fmt.Errorf("ClusterServiceVersion %q: spec.version is not set", b.Name())
	}
	if _, err := semver.ParseTolerant(version); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: spec.version %q is not a semantic version: %w", b.Name(), version, err)
	}
	return nil
}

// warnUnfit says why a bundle that is pushed could not be installed by a
// ClusterExtension. It may be meant for others, so that this stops nothing.
func warnUnfit(p report.Progress, b *bundle.Bundle) {
	var refused *render.RefusedError
	if errors.As(render.Validate(b), &refused) {
		report.OrQuiet(p).Warn("bundle " + b.Name() + " cannot be installed by a ClusterExtension: " + strings.Join(refused.Reasons, "; "))
	}
}

// annotationsFile says what a folder is: one that has it is a bundle.
const annotationsFile = "metadata/annotations.yaml"

// annotations reads the annotations of a bundle that bundle.Load has read, and which is
// therefore neither too large nor malformed.
func annotations(fsys fs.FS) (map[string]string, error) {
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

// Bounds on the search for bundles in a folder of the user.
const (
	maxBundleDepth = 8
	maxBundles     = 10_000
)

// findBundles returns the folders that hold a bundle, in the order of their paths. Folders
// within a bundle are not searched. None is not an error.
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

// decodeIcon decodes the picture of a CSV, which some authors break into lines.
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
