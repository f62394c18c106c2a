package index

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
)

// Item is a package as a namespace sees it: a PackageManifest.
type Item struct {
	// Namespace is where it is seen.
	Namespace string
	// Catalog is where it comes from.
	Catalog *Catalog
	// Package is the package.
	Package *Package
}

// Labels are those of the PackageManifest: of the CatalogSource, of the package, and those that say
// where it comes from.
func (i Item) Labels() map[string]string {
	all := make(map[string]string, len(i.Catalog.Labels)+len(i.Package.Labels)+2)
	maps.Copy(all, i.Catalog.Labels)
	maps.Copy(all, i.Package.Labels)
	all[packagesv1.LabelCatalog] = i.Catalog.Key.Name
	all[packagesv1.LabelCatalogNamespace] = i.Catalog.Key.Namespace
	return all
}

// Metadata is that of the PackageManifest in a version of the index.
func (i Item) Metadata(version string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: i.Package.Name, Namespace: i.Namespace, Labels: i.Labels(), ResourceVersion: version,
		CreationTimestamp: metav1.NewTime(i.Catalog.Created),
	}
}

// Columns are the cells of its row in a table: the name of the package, and that of the catalog for
// people.
func (i Item) Columns() (name, catalog string) { return i.Package.Name, i.Catalog.DisplayName }

var opening = fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":`, packagesv1.PackageManifestKind, packagesv1.GroupVersion)

// AppendJSON adds the PackageManifest to a text, as it is in a version of the index.
func (i Item) AppendJSON(text []byte, version string) ([]byte, error) {
	metadata, err := json.Marshal(i.Metadata(version))
	if err != nil {
		return nil, err
	}

	origin, err := json.Marshal(origin{
		CatalogSource: i.Catalog.Key.Name, DisplayName: i.Catalog.DisplayName,
		Publisher: i.Catalog.Publisher, Namespace: i.Catalog.Key.Namespace,
	})
	if err != nil {
		return nil, err
	}

	text = append(append(text, opening...), metadata...)
	text = append(text, `,"spec":{},"status":`...)
	text = append(text, origin...)
	// The fields of the package follow those of its origin in the same object.
	brace := len(text) - 1
	text, err = decoder().DecodeAll(i.Package.status, text)
	if err != nil {
		return nil, fmt.Errorf("package %q: %w", i.Package.Name, err)
	}

	text[brace+1], text[brace] = ',', ' '
	return append(text, '}'), nil
}

// origin are the fields of the status that come from the CatalogSource.
type origin struct {
	CatalogSource string `json:"catalogSource"`
	DisplayName   string `json:"catalogSourceDisplayName"`
	Publisher     string `json:"catalogSourcePublisher"`
	Namespace     string `json:"catalogSourceNamespace"`
}

// ETag returns the ETag of an icon: that of the version of a package at the head of a channel.
func ETag(pkg, channel, csv string) string {
	return `"` + strings.ReplaceAll(pkg+"."+channel+"."+csv, `"`, "") + `"`
}
