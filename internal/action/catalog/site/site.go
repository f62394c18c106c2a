// Package site writes a catalog as a static web site: the pages of the console for catalogs, with data from files. The site
// needs no server but one for files, works at any path, and loads nothing from elsewhere. The same catalog makes the same
// files.
package site

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Write writes a site.
type Write struct {
	// Metas yields the blobs of the catalog.
	Metas iter.Seq2[fbc.Meta, error]
	// Assets are the built pages, with index.html at the root.
	Assets fs.FS
	// Name is the name of the catalog. Title is the heading of the site; empty means Name.
	Name, Title string
	// CatalogSource is the CatalogSource of Subscriptions, as NAMESPACE/NAME. Empty means olm/ and the name of the catalog.
	CatalogSource string
	// Dir is the folder that is written. It must not exist or be empty.
	Dir string
}

// Written is a site that was written.
type Written struct {
	Packages int `json:"packages"`
	// Problems are packages and icons that were left out, with the reason.
	Problems []string `json:"problems,omitempty"`
}

// content is the list of packages as the pages read it.
type content struct {
	Title    string               `json:"title"`
	Packages []hub.PackageSummary `json:"packages"`
}

// packageContent is a package as the pages read it.
type packageContent struct {
	hub.PackageDetails
	// Manifests are the objects that install it.
	Manifests []manifest `json:"manifests"`
}

// Run reads the catalog and writes the site.
func (a *Write) Run(ctx context.Context) (*Written, error) {
	index, err := hub.Build(a.Name, a.Metas)
	if err != nil {
		return nil, err
	}
	root, err := createFolder(a.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // its files are closed

	w := &writer{root: root}
	w.copyAssets(a.Assets)
	written := &Written{Packages: len(index.Packages), Problems: index.Problems}
	icons := w.writeIcons(index, written)
	list := content{Title: cmp.Or(a.Title, a.Name), Packages: []hub.PackageSummary{}}
	for i := range index.Packages {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		summary := index.Packages[i]
		if !icons[summary.Icon] {
			summary.Icon = ""
		}
		list.Packages = append(list.Packages, summary)
		details, err := index.Details(summary.Name)
		if err != nil {
			return nil, err
		}
		details.PackageSummary = summary
		w.writePackage(details, a.newManifests)
	}
	hub.SortSummaries(list.Packages)
	w.writeJSON("data/packages.json", list)
	return written, w.err
}

// createFolder creates the folder of the site. Files that are there already are not replaced.
func createFolder(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a site is for all to read
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, &report.Error{Object: fmt.Sprintf("folder %q", dir), Err: errors.New("it is not empty"), Advice: "remove it, or name another one with -o"}
	}
	return os.OpenRoot(filepath.Clean(dir))
}

// writer writes the files of a site. After an error it writes nothing.
type writer struct {
	root *os.Root
	err  error
}

func (w *writer) writeFile(name string, data []byte) {
	if w.err != nil {
		return
	}
	if w.err = w.root.MkdirAll(path.Dir(name), 0o755); w.err == nil {
		w.err = w.root.WriteFile(name, data, 0o644)
	}
}

func (w *writer) writeJSON(name string, value any) {
	data, err := json.Marshal(value)
	w.err = cmp.Or(w.err, err)
	w.writeFile(name, data)
}

// copyAssets writes the built pages.
func (w *writer) copyAssets(assets fs.FS) {
	if _, err := fs.Stat(assets, "index.html"); err != nil {
		w.err = fmt.Errorf("reading the pages of the site: %w", err)
		return
	}
	w.err = fs.WalkDir(assets, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(assets, name)
		if err != nil {
			return err
		}
		w.writeFile(name, data)
		return w.err
	})
}

// writeIcons writes the icons of the packages. It returns the names of those that it has written. An SVG with scripts is
// left out: opened by its address, it would run as a page of the site.
func (w *writer) writeIcons(index *hub.Index, written *Written) map[string]bool {
	icons := map[string]bool{}
	for i := range index.Packages {
		p := &index.Packages[i]
		icon, ok := index.Icon(p.Icon)
		switch {
		case !ok || icons[p.Icon]:
		case icon.IsActive():
			written.Problems = append(written.Problems, fmt.Sprintf("package %q: its icon is left out, because it is an SVG with scripts or links", p.Name))
		default:
			icons[p.Icon] = true
			w.writeFile("icons/"+p.Icon, icon.Data)
		}
	}
	return icons
}

// writePackage writes the details of a package and the manifests that install it.
func (w *writer) writePackage(details *hub.PackageDetails, newManifests func(*hub.PackageDetails) ([]manifest, error)) {
	manifests, err := newManifests(details)
	w.err = cmp.Or(w.err, err)
	w.writeJSON("data/packages/"+details.Name+".json", packageContent{PackageDetails: *details, Manifests: manifests})
	for _, m := range manifests {
		w.writeFile("install/"+details.Name+"/"+m.File, []byte(m.YAML))
	}
}
