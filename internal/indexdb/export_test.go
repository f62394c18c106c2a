package indexdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (d *fixture) runExport(x Export) (string, error) {
	d.t.Helper()
	index, err := Open(context.Background(), d.path, d.indexOptions())
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = index.Close() }()

	x.Index, x.Folder = index, filepath.Join(d.t.TempDir(), "downloaded")
	x.Fetch = func(_ context.Context, image, folder string) error {
		if strings.HasSuffix(image, "fails") {
			return errors.New("no such image")
		}
		return os.WriteFile(filepath.Join(folder, "csv.yaml"), []byte(image), 0o600)
	}

	err = x.Run(context.Background())
	var out strings.Builder
	walkErr := filepath.WalkDir(x.Folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		name, err := filepath.Rel(x.Folder, path)
		fmt.Fprintf(&out, "%s: %s\n", name, strings.TrimSpace(string(content)))
		return err
	})
	if walkErr != nil && !errors.Is(walkErr, fs.ErrNotExist) {
		d.t.Fatal(walkErr)
	}

	return out.String(), err
}

func TestExport(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode,
		bundleSpec{version: "1.0.0", channels: "a"}, bundleSpec{version: "1.1.0", channels: "a,b", replaces: "p.v1.0.0", defaultChannel: "b"},
		bundleSpec{pkg: "q", name: "q.none", channels: "x"},
	)
	d.execSQL(`UPDATE operatorbundle SET bundlepath = '' WHERE name = 'q.none'`)
	const p = `p/1.0.0/csv.yaml: registry.example/p.v1.0.0
p/1.1.0/csv.yaml: registry.example/p.v1.1.0
p/package.yaml: channels:
- currentCSV: p.v1.1.0
  name: a
- currentCSV: p.v1.1.0
  name: b
defaultChannel: b
packageName: p
`

	got, err := d.runExport(Export{Packages: []string{"p"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("package p (-want +got):\n%s", diff)
	}

	got, err = d.runExport(Export{})
	if err != nil {
		t.Fatal(err)
	}
	// A bundle without a version has a folder with its name. The manifests of a bundle without an
	// image are those of the index.
	if !strings.Contains(got, "q/q.none/001_clusterserviceversion.yaml: apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n") ||
		!strings.HasPrefix(got, p) {
		t.Errorf("got unexpected exported files\n%s", got)
	}
	if _, err := d.runExport(Export{Packages: []string{"nope"}}); err == nil || !strings.Contains(err.Error(), `package "nope": the index has no such package`) {
		t.Errorf("error %v", err)
	}

	d.execSQL(`UPDATE operatorbundle SET bundlepath = 'fails' WHERE name = 'p.v1.0.0'`)
	got, err = d.runExport(Export{Packages: []string{"p"}})
	if want := `bundle "p.v1.0.0", image fails: no such image`; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	if !strings.Contains(got, "p/1.1.0/csv.yaml") || !strings.Contains(got, "p/package.yaml") {
		t.Errorf("got the exported files\n%s\nwant the other bundle and the package", got)
	}
}

func TestExportStaysInItsFolder(t *testing.T) {
	for name, statements := range map[string][]string{
		"a version": {`UPDATE properties SET value = '{"packageName":"p","version":"../../x"}' WHERE type = 'olm.package'`},
		"a name":    {`UPDATE properties SET value = '{"packageName":"p","version":""}' WHERE type = 'olm.package'`, `UPDATE operatorbundle SET name = '../../x'`, `UPDATE channel_entry SET operatorbundle_name = '../../x'`, `UPDATE properties SET operatorbundle_name = '../../x'`},
		"a package": {`UPDATE package SET name = '..'`, `UPDATE channel_entry SET package_name = '..'`, `UPDATE channel SET package_name = '..'`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
			d.execSQL(statements...)
			if got, err := d.runExport(Export{}); err == nil || !strings.Contains(err.Error(), "cannot be the name of a folder") {
				t.Errorf("got unexpected error %v or exported files\n%s", err, got)
			}
		})
	}
}
