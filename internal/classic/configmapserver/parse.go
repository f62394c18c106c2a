package configmapserver

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Keys of the ConfigMap's data. Each value is a YAML list.
const (
	KeyCRDs     = "customResourceDefinitions"
	KeyCSVs     = "clusterServiceVersions"
	KeyPackages = "packages"
)

// Limits of a catalog in a ConfigMap. An API server accepts ConfigMaps of 1 MiB.
const (
	// maxDataBytes limits the data of the ConfigMap.
	maxDataBytes = 4 << 20
	// maxBlobBytes limits the catalog. Each ClusterServiceVersion has copies of its CRDs, so the
	// catalog can be much larger than the ConfigMap.
	maxBlobBytes = 64 << 20
	// maxChannelEntries limits the entries of all channels.
	maxChannelEntries = 100_000
)

// Catalog is the catalog that a ConfigMap describes.
type Catalog struct {
	// Blobs are the blobs of the catalog, package by package.
	Blobs []fbc.Meta
	// Warnings describe what is in the ConfigMap but not in the catalog.
	Warnings []string
}

// Parse returns the catalog that the data of a ConfigMap describes. If something in it cannot be
// served, Parse returns the catalog without it, and Problems.
func Parse(data map[string]string) (*Catalog, error) {
	p := &parser{crds: map[string][]crd{}, csvs: map[string]*csv{}, packages: map[string]bool{}}
	if err := p.checkSize(data); err != nil {
		return &Catalog{}, err
	}

	for key := range data {
		if key != KeyCRDs && key != KeyCSVs && key != KeyPackages {
			p.warnings = append(p.warnings, fmt.Sprintf("the key %q is ignored: the keys of a catalog are %s, %s and %s", key, KeyCRDs, KeyCSVs, KeyPackages))
		}
	}

	p.readCRDs(data)
	p.readCSVs(data)
	p.readPackages(data)
	for _, c := range p.csvs {
		if !c.isUsed {
			p.warnings = append(p.warnings, fmt.Sprintf("%s[%d] (%s) is ignored: no channel contains it", KeyCSVs, c.entry, c.name))
		}
	}

	slices.Sort(p.warnings)
	catalog := &Catalog{Blobs: p.blobs, Warnings: p.warnings}
	if len(p.problems) > 0 {
		return catalog, p.problems
	}

	return catalog, nil
}

// parser reads the lists of a ConfigMap and collects blobs and problems.
type parser struct {
	// crds are the CRDs by name. Several versions of a CRD may be separate entries.
	crds map[string][]crd
	// csvs are the ClusterServiceVersions by name.
	csvs map[string]*csv
	// packages are the names of the packages.
	packages map[string]bool

	blobs    []fbc.Meta
	warnings []string
	problems Problems
	// blobBytes and channelEntries count towards the limits.
	blobBytes, channelEntries int
}

// crd is an entry of the list of CRDs.
type crd struct {
	entry  int
	object map[string]any
}

// csv is an entry of the list of ClusterServiceVersions.
type csv struct {
	entry  int
	name   string
	object map[string]any
	// updates are the names that it replaces and skips.
	updates []string
	// ownedCRDs are the names of its CRDs.
	ownedCRDs []string
	// isUsed is true if a channel contains it.
	isUsed bool
}

func (p *parser) checkSize(data map[string]string) error {
	total := 0
	for _, value := range data {
		total += len(value)
	}
	if total > maxDataBytes {
		return fmt.Errorf("the data has %d bytes, more than the %d bytes that a catalog may have: use a catalog image", total, maxDataBytes)
	}
	return nil
}

// readList reads the list of a key. Objects of another kind than the given one are problems; an
// empty kind accepts all objects.
func (p *parser) readList(data map[string]string, key, kind string, add func(entry int, object map[string]any) (name string, err error)) {
	entries, err := bundle.ReadList([]byte(data[key]))
	if err != nil {
		p.problems.add(key, -1, "", err)
		return
	}

	for i, entry := range entries {
		name, err := "", entry.Err
		if found := (&unstructured.Unstructured{Object: entry.Object}).GetKind(); err == nil && kind != "" && found != kind {
			err = fmt.Errorf("its kind is %q: only objects of kind %s may be in this list", found, kind)
		}
		if err == nil {
			name, err = add(i, entry.Object)
		}
		if err != nil {
			p.problems.add(key, i, name, err)
		}
	}
}

// readCRDs reads the CRDs. A ConfigMap need not have any.
func (p *parser) readCRDs(data map[string]string) {
	p.readList(data, KeyCRDs, "CustomResourceDefinition", func(entry int, object map[string]any) (string, error) {
		name := (&unstructured.Unstructured{Object: object}).GetName()
		if name == "" {
			return "", errors.New("metadata.name is missing")
		}
		p.crds[name] = append(p.crds[name], crd{entry, object})
		return name, nil
	})
}

// readCSVs reads the ClusterServiceVersions.
func (p *parser) readCSVs(data map[string]string) {
	p.readList(data, KeyCSVs, "ClusterServiceVersion", func(entry int, object map[string]any) (string, error) {
		c, err := newCSV(entry, object)
		switch {
		case err != nil:
			return (&unstructured.Unstructured{Object: object}).GetName(), err
		case p.csvs[c.name] != nil:
			return c.name, fmt.Errorf("%s[%d] has the same name: remove one of them", KeyCSVs, p.csvs[c.name].entry)
		}
		p.csvs[c.name] = c
		return c.name, nil
	})
}

// newCSV returns the entry for a ClusterServiceVersion.
func newCSV(entry int, object map[string]any) (*csv, error) {
	var content struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Replaces string   `json:"replaces"`
			Skips    []string `json:"skips"`
			CRDs     struct {
				Owned []struct {
					Name string `json:"name"`
				} `json:"owned"`
			} `json:"customresourcedefinitions"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &content); err != nil {
		return nil, fmt.Errorf("a field has a wrong type: %w", err)
	}
	if content.Metadata.Name == "" {
		return nil, errors.New("metadata.name is missing")
	}

	c := &csv{entry: entry, name: content.Metadata.Name, object: object, updates: content.Spec.Skips}
	if content.Spec.Replaces != "" {
		c.updates = append([]string{content.Spec.Replaces}, c.updates...)
	}
	for _, owned := range content.Spec.CRDs.Owned {
		c.ownedCRDs = append(c.ownedCRDs, owned.Name)
	}

	return c, nil
}
