package serve

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
)

// responseFormat is the representation of PackageManifests that a client requested: whole
// objects, rows of a table, or their metadata.
type responseFormat struct {
	asKind string // "", asTable or asMetadata
	// include is the object that comes with each row of a table.
	include metav1.IncludeObjectPolicy
	now     time.Time
}

const (
	asTable    = "Table"
	asMetadata = "PartialObjectMetadata"
)

// negotiateFormat returns the format that a client asks for in its Accept header.
func (h *Handler) negotiateFormat(r *http.Request) (responseFormat, error) {
	f := responseFormat{now: h.currentTime(), include: metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))}
	switch f.include {
	case "":
		f.include = metav1.IncludeMetadata
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
	default:
		return f, apierrors.NewBadRequest(fmt.Sprintf("includeObject: %q is not one of None, Metadata and Object", f.include))
	}

	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return f, nil
	}

	for wanted := range strings.SplitSeq(accept, ",") {
		media, parameters, err := mime.ParseMediaType(wanted)
		if err != nil || (media != mediaTypeJSON && media != "*/*" && media != "application/*") {
			continue
		}
		as := strings.TrimSuffix(parameters["as"], "List")
		switch {
		case as == "":
			return f, nil
		case (as == asTable || as == asMetadata) && parameters["g"] == metav1.GroupName && parameters["v"] == "v1":
			f.asKind = as
			return f, nil
		}
	}

	return f, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + mediaTypeJSON,
	}}
}

var tableColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "The name of the package."},
	{Name: "Catalog", Type: "string", Description: "The catalog that the package comes from, as it is called for people."},
	{Name: "Age", Type: "date", Description: "How long the catalog has been in the cluster."},
}

// listPrefix returns the JSON of a list up to its first item.
func (f responseFormat) listPrefix(version string) ([]byte, error) {
	metadata := metav1.ListMeta{ResourceVersion: version}
	switch f.asKind {
	case asTable:
		return marshalListPrefix(metav1.Table{TypeMeta: newTypeMeta(asTable), ListMeta: metadata, ColumnDefinitions: tableColumns, Rows: []metav1.TableRow{}})
	case asMetadata:
		return marshalListPrefix(metav1.PartialObjectMetadataList{TypeMeta: newTypeMeta(asMetadata + "List"), ListMeta: metadata, Items: []metav1.PartialObjectMetadata{}})
	}

	return marshalListPrefix(packagesv1.PackageManifestList{
		TypeMeta: metav1.TypeMeta{Kind: packagesv1.PackageManifestListKind, APIVersion: packagesv1.GroupVersion.String()},
		ListMeta: metadata, Items: []packagesv1.PackageManifest{},
	})
}

// listSuffix is the JSON of a list after its last item.
const listSuffix = "]}"

// marshalListPrefix returns the JSON of an empty list without its suffix. The items must be the
// last field of the list.
func marshalListPrefix(list any) ([]byte, error) {
	text, err := json.Marshal(list)
	return []byte(strings.TrimSuffix(string(text), listSuffix)), err
}

func newTypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: metav1.SchemeGroupVersion.String()}
}

// appendListItem appends an item of a list as JSON.
func (f responseFormat) appendListItem(text []byte, item index.Item, version string) ([]byte, error) {
	if f.asKind != asTable {
		return f.appendSingleObject(text, item, version)
	}

	name, catalog := item.Columns()
	row := metav1.TableRow{Cells: []any{name, catalog, f.formatCatalogAge(item)}}
	var err error
	switch f.include {
	case metav1.IncludeMetadata:
		row.Object.Raw, err = responseFormat{asKind: asMetadata}.appendSingleObject(nil, item, version)
	case metav1.IncludeObject:
		row.Object.Raw, err = responseFormat{}.appendSingleObject(nil, item, version)
	}

	if err != nil {
		return nil, err
	}

	written, err := json.Marshal(row)
	return append(text, written...), err
}

// appendSingleObject appends a single object as JSON.
func (f responseFormat) appendSingleObject(text []byte, item index.Item, version string) ([]byte, error) {
	switch f.asKind {
	case asTable:
		text, err := f.appendListPrefix(text, version)
		if err != nil {
			return nil, err
		}
		text, err = f.appendListItem(text, item, version)
		return append(text, listSuffix...), err
	case asMetadata:
		written, err := json.Marshal(metav1.PartialObjectMetadata{TypeMeta: newTypeMeta(asMetadata), ObjectMeta: item.Metadata(version)})
		return append(text, written...), err
	}

	return item.AppendJSON(text, version)
}

func (f responseFormat) appendListPrefix(text []byte, version string) ([]byte, error) {
	written, err := f.listPrefix(version)
	return append(text, written...), err
}

// formatCatalogAge returns the age of a package's catalog for humans.
func (f responseFormat) formatCatalogAge(item index.Item) string {
	if item.Catalog.Created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(f.now.Sub(item.Catalog.Created))
}

// marshalBookmark returns a bookmark object with a resource version. initial marks the end of
// the initial events.
func (f responseFormat) marshalBookmark(version string, initial bool) ([]byte, error) {
	metadata := metav1.ObjectMeta{ResourceVersion: version}
	if initial {
		metadata.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}

	object := metav1.PartialObjectMetadata{TypeMeta: newTypeMeta(asMetadata), ObjectMeta: metadata}
	if f.asKind != asMetadata {
		object.TypeMeta = metav1.TypeMeta{Kind: packagesv1.PackageManifestKind, APIVersion: packagesv1.GroupVersion.String()}
	}

	text, err := json.Marshal(object)
	if err != nil || f.asKind != asTable {
		return text, err
	}

	return json.Marshal(metav1.Table{
		TypeMeta: newTypeMeta(asTable), ListMeta: metav1.ListMeta{ResourceVersion: version}, ColumnDefinitions: tableColumns,
		Rows: []metav1.TableRow{{Cells: []any{"", "", ""}, Object: runtime.RawExtension{Raw: text}}},
	})
}
