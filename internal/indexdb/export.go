package indexdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// maxConcurrentFetches is how many images are fetched at a time.
const maxConcurrentFetches = 10

// Export writes packages of an index as folders in the package manifest format.
// <folder>/<package>/<version>/ contains the manifests of a bundle, and
// <folder>/<package>/package.yaml its channels. If a bundle has no version, or that of
// another bundle, its folder has the bundle's name.
type Export struct {
	// Index is the index to read.
	Index *Index
	// Packages are the packages to write. Empty means all.
	Packages []string
	// Folder is the folder to write to. It is created if it does not exist.
	Folder string
	// Fetch writes the manifests of a bundle image into an existing folder. It is called by
	// up to ten goroutines at a time. Bundles without an image are written from the index.
	Fetch func(ctx context.Context, image, folder string) error
}

// Run exports the packages. If some bundles fail, the others are still written.
func (x Export) Run(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentFetches)
	run := &exportRun{Export: x, group: group, foundPackages: map[string]bool{}}
	err := run.exportAll(ctx, groupCtx)
	_ = group.Wait() // Its functions return no errors.
	slices.SortFunc(run.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(append(run.errs, err)...)
}

// exportRun is one run of an Export.
type exportRun struct {
	Export
	group *errgroup.Group
	// foundPackages are the packages that were read. manifest is that of the current one,
	// and usedFolders are the folders in it.
	foundPackages map[string]bool
	manifest      packageManifest
	usedFolders   map[string]bool

	mu   sync.Mutex
	errs []error
}

// packageManifest is the content of a package.yaml.
type packageManifest struct {
	PackageName    string            `json:"packageName"`
	Channels       []manifestChannel `json:"channels"`
	DefaultChannel string            `json:"defaultChannel,omitempty"`
}

type manifestChannel struct {
	Name       string `json:"name"`
	CurrentCSV string `json:"currentCSV"`
}

func (x *exportRun) exportAll(ctx, fetchCtx context.Context) error {
	for meta, err := range x.Index.Metas(ctx) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if len(x.Packages) > 0 && !slices.Contains(x.Packages, meta.PackageName()) {
			continue
		}
		if err := x.exportMeta(ctx, fetchCtx, meta); err != nil {
			return fmt.Errorf("%s: %w", meta, err)
		}
	}

	for _, name := range x.Packages {
		if !x.foundPackages[name] {
			return fmt.Errorf("package %q: the index has no such package", name)
		}
	}
	return x.finishPackage()
}

// exportMeta processes a blob. The blobs of a package must come one after the other.
func (x *exportRun) exportMeta(ctx, fetchCtx context.Context, meta fbc.Meta) error {
	switch meta.Schema {
	case fbc.SchemaPackage:
		if err := x.finishPackage(); err != nil {
			return err
		}

		p, err := fbc.DecodePackage(meta)
		if err != nil {
			return err
		}
		if err := checkFolderName(p.Name); err != nil {
			return err
		}

		x.foundPackages[p.Name] = true
		x.manifest = packageManifest{PackageName: p.Name, DefaultChannel: p.DefaultChannel}
		x.usedFolders = map[string]bool{}
	case fbc.SchemaChannel:
		head, _, err := queryText(ctx, x.Index.conn, `SELECT CAST(head_operatorbundle_name AS TEXT) FROM channel WHERE package_name = ? AND name = ?`, meta.Package, meta.Name)
		if err != nil {
			return err
		}
		x.manifest.Channels = append(x.manifest.Channels, manifestChannel{Name: meta.Name, CurrentCSV: head})
	case fbc.SchemaBundle:
		return x.exportBundle(fetchCtx, meta)
	}

	return nil
}

func (x *exportRun) finishPackage() error {
	if x.manifest.PackageName == "" {
		return nil
	}

	folder := filepath.Join(x.Folder, x.manifest.PackageName)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}

	content, err := yaml.Marshal(x.manifest)
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(folder, "package.yaml"), content, 0o644) //nolint:gosec // Exported files are readable by others.
}

// exportBundle writes a bundle, or starts to fetch it.
func (x *exportRun) exportBundle(ctx context.Context, meta fbc.Meta) error {
	b, err := fbc.DecodeBundle(meta)
	if err != nil {
		return err
	}

	element := packagePropertyVersion(b)
	if element == "" || x.usedFolders[element] {
		element = b.Name
	}
	if err := checkFolderName(element); err != nil {
		return err
	}

	x.usedFolders[element] = true
	folder := filepath.Join(x.Folder, b.Package, element)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	if b.Image == "" {
		return writeManifests(folder, b)
	}

	x.group.Go(func() error {
		if err := x.Fetch(ctx, b.Image, folder); err != nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.errs = append(x.errs, fmt.Errorf("bundle %q, image %s: %w", b.Name, b.Image, err))
		}
		return nil
	})

	return nil
}

// packagePropertyVersion returns the version of the olm.package property, or an empty
// string.
func packagePropertyVersion(b *fbc.Bundle) string {
	for _, p := range b.Properties {
		var value fbc.PackageProperty
		if p.Type == fbc.PropertyPackage && json.Unmarshal(p.Value, &value) == nil {
			return value.Version
		}
	}
	return ""
}

// checkFolderName returns an error for a name that is not a single path element, because
// names of a database are not trusted.
func checkFolderName(name string) error {
	if name == "." || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		return fmt.Errorf("%q cannot be the name of a folder", name)
	}
	return nil
}

// writeManifests writes the objects of a bundle that are stored in the index, each as a
// file.
func writeManifests(folder string, b *fbc.Bundle) error {
	n := 0
	for _, p := range b.Properties {
		if p.Type != fbc.PropertyBundleObject {
			continue
		}

		var value struct {
			Data []byte `json:"data"`
		}
		if err := json.Unmarshal(p.Value, &value); err != nil {
			return err
		}

		content, err := yaml.JSONToYAML(value.Data)
		if err != nil {
			return err
		}

		n++
		var head struct {
			Kind string `json:"kind"`
		}
		name := fmt.Sprintf("%03d", n)
		if json.Unmarshal(value.Data, &head) == nil && checkFolderName(head.Kind) == nil && len(head.Kind) < 100 {
			name += "_" + strings.ToLower(head.Kind)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), content, 0o644); err != nil { //nolint:gosec // As above.
			return err
		}
	}

	return nil
}
