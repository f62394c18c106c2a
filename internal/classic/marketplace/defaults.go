package marketplace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Limits of the folder with the manifests.
const (
	maxManifestFiles = 100
	maxManifestBytes = 1 << 20
)

// annotationManagedBy is set on every default catalog to managedBy. Platforms identify default
// catalogs by it.
const (
	annotationManagedBy = "operatorframework.io/managed-by"
	managedBy           = "marketplace-operator"
)

// defaultCatalogs are the default catalogs by name, and the errors of manifests that cannot be
// used.
type defaultCatalogs struct {
	catalogs map[string]*v1alpha1.CatalogSource
	problems []error
}

// sortedNames returns the names of the catalogs, sorted.
func (d *defaultCatalogs) sortedNames() []string { return slices.Sorted(maps.Keys(d.catalogs)) }

// readDefaults reads the manifests in a folder: files with the suffix .yaml, .yml or .json,
// each with one CatalogSource. A file that cannot be used is recorded as a problem and skipped.
// The folder may be nil.
func readDefaults(folder fs.FS, namespace string) *defaultCatalogs {
	d := &defaultCatalogs{catalogs: map[string]*v1alpha1.CatalogSource{}}
	if folder == nil {
		return d
	}

	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		d.problems = append(d.problems, fmt.Errorf("reading the folder of default catalogs: %w", err))
		return d
	}

	files := map[string]string{} // by catalog
	for _, entry := range entries {
		// A mounted ConfigMap has internal folders, which start with two dots.
		name := entry.Name()
		if entry.IsDir() || strings.HasPrefix(name, ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			continue
		}
		if len(files) == maxManifestFiles {
			d.problems = append(d.problems, fmt.Errorf("there are more than %d default catalogs: %s and the following files are ignored", maxManifestFiles, name))
			break
		}

		catalog, err := readDefaultFile(folder, name, namespace)
		if err == nil && files[catalog.Name] != "" {
			err = fmt.Errorf("%s: catalog %q is already defined in %s: rename it, or remove one of the files", name, catalog.Name, files[catalog.Name])
		}
		if err != nil {
			d.problems = append(d.problems, err)
			continue
		}

		files[catalog.Name] = name
		d.catalogs[catalog.Name] = catalog
	}

	return d
}

func readDefaultFile(folder fs.FS, name, namespace string) (*v1alpha1.CatalogSource, error) {
	info, err := fs.Stat(folder, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if info.Size() > maxManifestBytes {
		return nil, fmt.Errorf("%s: the manifest has %d bytes, more than the limit of %d", name, info.Size(), maxManifestBytes)
	}

	data, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	catalog, err := parseDefault(data, namespace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	return catalog, nil
}

// parseDefault parses the manifest of a default catalog. Unknown fields are errors.
func parseDefault(data []byte, namespace string) (*v1alpha1.CatalogSource, error) {
	document, err := singleDocument(data)
	if err != nil {
		return nil, err
	}

	var read v1alpha1.CatalogSource
	if err := yaml.UnmarshalStrict(document, &read); err != nil {
		return nil, err
	}
	if want := v1alpha1.GroupVersion.String(); read.APIVersion != want || read.Kind != v1alpha1.CatalogSourceKind {
		return nil, fmt.Errorf("it is a %q of %q, and must be a %s of %s", read.Kind, read.APIVersion, v1alpha1.CatalogSourceKind, want)
	}
	if read.Name == "" {
		return nil, errors.New("metadata.name is missing")
	}
	if cmp.Or(read.Namespace, namespace) != namespace {
		return nil, fmt.Errorf("metadata.namespace is %q: leave it out, default catalogs are in %s", read.Namespace, namespace)
	}

	catalog := &v1alpha1.CatalogSource{Spec: read.Spec}
	catalog.Namespace, catalog.Name, catalog.Labels = namespace, read.Name, read.Labels
	catalog.Annotations = map[string]string{annotationManagedBy: managedBy}
	maps.Copy(catalog.Annotations, read.Annotations)

	return catalog, nil
}

// singleDocument returns the only YAML document of a file.
func singleDocument(data []byte) ([]byte, error) {
	var found []byte
	for document := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---")) {
		var content any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, err
		}
		switch {
		case content == nil:
		case found != nil:
			return nil, errors.New("the file has more than one document: use a separate file for each catalog")
		default:
			found = document
		}
	}

	return found, nil
}
