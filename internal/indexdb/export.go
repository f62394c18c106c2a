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

// exportPulls is how many images are fetched at a time.
const exportPulls = 10

// Export writes packages of an index as folders in the package manifest format:
// <folder>/<package>/<version>/ has the manifests of a bundle, and
// <folder>/<package>/package.yaml its channels. The folder of a bundle without a version,
// or with that of another, has the bundle's name.
type Export struct {
	// Index that is read.
	Index *Index
	// Packages to be written. Empty: all.
	Packages []string
	// Folder to write to. It is made if it is not there.
	Folder string
	// Fetch writes the manifests of a bundle image into an existing folder. It is called by
	// up to ten goroutines at a time. Bundles without an image are written from the index.
	Fetch func(ctx context.Context, image, folder string) error
}

// Run exports. Everything that can be written is, even if some bundles cannot.
func (x Export) Run(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(exportPulls)
	run := &exporting{Export: x, group: group, found: map[string]bool{}}
	err := run.all(ctx, groupCtx)
	_ = group.Wait() // Its functions give no errors.
	slices.SortFunc(run.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(append(run.errs, err)...)
}

// exporting is one run of an Export.
type exporting struct {
	Export
	group *errgroup.Group
	// found are the packages that were seen; manifest is that of the current one, and taken
	// are the folders in it.
	found    map[string]bool
	manifest packageManifest
	taken    map[string]bool

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

func (x *exporting) all(ctx, fetchCtx context.Context) error {
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
		if err := x.take(ctx, fetchCtx, meta); err != nil {
			return fmt.Errorf("%s: %w", meta, err)
		}
	}

	for _, name := range x.Packages {
		if !x.found[name] {
			return fmt.Errorf("package %q: the index has no such package", name)
		}
	}
	return x.finishPackage()
}

// take takes in a blob. Those of a package come one after the other.
func (x *exporting) take(ctx, fetchCtx context.Context, meta fbc.Meta) error {
	switch meta.Schema {
	case fbc.SchemaPackage:
		if err := x.finishPackage(); err != nil {
			return err
		}

		p, err := fbc.DecodePackage(meta)
		if err != nil {
			return err
		}
		if err := checkElement(p.Name); err != nil {
			return err
		}

		x.found[p.Name] = true
		x.manifest = packageManifest{PackageName: p.Name, DefaultChannel: p.DefaultChannel}
		x.taken = map[string]bool{}
	case fbc.SchemaChannel:
		head, _, err := text(ctx, x.Index.conn, `SELECT CAST(head_operatorbundle_name AS TEXT) FROM channel WHERE package_name = ? AND name = ?`, meta.Package, meta.Name)
		if err != nil {
			return err
		}
		x.manifest.Channels = append(x.manifest.Channels, manifestChannel{Name: meta.Name, CurrentCSV: head})
	case fbc.SchemaBundle:
		return x.bundle(fetchCtx, meta)
	}

	return nil
}

func (x *exporting) finishPackage() error {
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

	return os.WriteFile(filepath.Join(folder, "package.yaml"), content, 0o644) //nolint:gosec // Others may read it, as what else is exported.
}

// bundle writes a bundle, or has it fetched.
func (x *exporting) bundle(ctx context.Context, meta fbc.Meta) error {
	b, err := fbc.DecodeBundle(meta)
	if err != nil {
		return err
	}

	element := bundleVersion(b)
	if element == "" || x.taken[element] {
		element = b.Name
	}
	if err := checkElement(element); err != nil {
		return err
	}

	x.taken[element] = true
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

func bundleVersion(b *fbc.Bundle) string {
	for _, p := range b.Properties {
		var value fbc.PackageProperty
		if p.Type == fbc.PropertyPackage && json.Unmarshal(p.Value, &value) == nil {
			return value.Version
		}
	}
	return ""
}

// checkElement refuses a name that is no single element of a path: names of a database may
// come from anybody.
func checkElement(name string) error {
	if name == "." || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		return fmt.Errorf("%q cannot be the name of a folder", name)
	}
	return nil
}

// writeManifests writes the objects that an index holds of a bundle, each as a file.
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
		if json.Unmarshal(value.Data, &head) == nil && checkElement(head.Kind) == nil && len(head.Kind) < 100 {
			name += "_" + strings.ToLower(head.Kind)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), content, 0o644); err != nil { //nolint:gosec // As above.
			return err
		}
	}

	return nil
}
