package index

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
)

// Item is a package as seen from a namespace: a PackageManifest.
type Item struct {
	// Namespace is the namespace of the PackageManifest.
	Namespace string
	// Catalog is the catalog that contains the package.
	Catalog *Catalog
	Package *Package
}

// Labels returns the labels of the PackageManifest: those of the CatalogSource, those of the
// package, and the labels with the name and namespace of the catalog.
func (i Item) Labels() map[string]string {
	all := make(map[string]string, len(i.Catalog.Labels)+len(i.Package.Labels)+2)
	maps.Copy(all, i.Catalog.Labels)
	maps.Copy(all, i.Package.Labels)
	all[packagesv1.LabelCatalog] = i.Catalog.Key.Name
	all[packagesv1.LabelCatalogNamespace] = i.Catalog.Key.Namespace
	return all
}

// Metadata returns the metadata of the PackageManifest with a resource version.
func (i Item) Metadata(version string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: i.Package.Name, Namespace: i.Namespace, Labels: i.Labels(), ResourceVersion: version,
		CreationTimestamp: metav1.NewTime(i.Catalog.Created),
	}
}

// Columns returns the cells of its row in a table: the package name and the catalog's display
// name.
func (i Item) Columns() (name, catalog string) { return i.Package.Name, i.Catalog.DisplayName }

// manifestPrefix is the start of a PackageManifest in JSON.
var manifestPrefix = fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":`, packagesv1.PackageManifestKind, packagesv1.GroupVersion)

// AppendJSON appends the PackageManifest with a resource version as JSON.
func (i Item) AppendJSON(text []byte, version string) ([]byte, error) {
	metadata, err := json.Marshal(i.Metadata(version))
	if err != nil {
		return nil, err
	}

	catalogFields, err := json.Marshal(catalogStatus{
		CatalogSource: i.Catalog.Key.Name, DisplayName: i.Catalog.DisplayName,
		Publisher: i.Catalog.Publisher, Namespace: i.Catalog.Key.Namespace,
	})
	if err != nil {
		return nil, err
	}

	text = append(append(text, manifestPrefix...), metadata...)
	text = append(text, `,"spec":{},"status":`...)
	text = append(text, catalogFields...)
	// The fields of the package follow those of its catalog in the same object.
	brace := len(text) - 1
	text, err = sharedDecoder().DecodeAll(i.Package.status, text)
	if err != nil {
		return nil, fmt.Errorf("package %q: %w", i.Package.Name, err)
	}

	text[brace+1], text[brace] = ',', ' '
	return append(text, '}'), nil
}

// catalogStatus has the fields of the status that come from the CatalogSource.
type catalogStatus struct {
	CatalogSource string `json:"catalogSource"`
	DisplayName   string `json:"catalogSourceDisplayName"`
	Publisher     string `json:"catalogSourcePublisher"`
	Namespace     string `json:"catalogSourceNamespace"`
}

// ETag returns the ETag of an icon. It consists of the package, the channel and the CSV at its
// head.
func ETag(pkg, channel, csv string) string {
	return `"` + strings.ReplaceAll(pkg+"."+channel+"."+csv, `"`, "") + `"`
}
