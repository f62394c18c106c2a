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

// form is how PackageManifests are written: whole, as rows of a table for people, or their metadata.
type form struct {
	as string // "", asTable or asMetadata
	// include is what comes with each row of a table.
	include metav1.IncludeObjectPolicy
	now     time.Time
}

const (
	asTable    = "Table"
	asMetadata = "PartialObjectMetadata"
)

// formOf returns the form that a client asks for.
func (h *Handler) formOf(r *http.Request) (form, error) {
	f := form{now: h.now(), include: metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))}
	switch f.include {
	case "":
		f.include = metav1.IncludeMetadata
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
	default:
		return f, apierrors.NewBadRequest(fmt.Sprintf("includeObject: %q is none of None, Metadata and Object", f.include))
	}

	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return f, nil
	}

	for wanted := range strings.SplitSeq(accept, ",") {
		media, parameters, err := mime.ParseMediaType(wanted)
		if err != nil || (media != typeJSON && media != "*/*" && media != "application/*") {
			continue
		}
		as := strings.TrimSuffix(parameters["as"], "List")
		switch {
		case as == "":
			return f, nil
		case (as == asTable || as == asMetadata) && parameters["g"] == metav1.GroupName && parameters["v"] == "v1":
			f.as = as
			return f, nil
		}
	}

	return f, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + typeJSON,
	}}
}

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "The name of the package."},
	{Name: "Catalog", Type: "string", Description: "The catalog that the package comes from, as it is called for people."},
	{Name: "Age", Type: "date", Description: "How long the catalog has been in the cluster."},
}

// begin is what stands before the first item of a list.
func (f form) begin(version string) ([]byte, error) {
	metadata := metav1.ListMeta{ResourceVersion: version}
	switch f.as {
	case asTable:
		return open(metav1.Table{TypeMeta: meta(asTable), ListMeta: metadata, ColumnDefinitions: columns, Rows: []metav1.TableRow{}})
	case asMetadata:
		return open(metav1.PartialObjectMetadataList{TypeMeta: meta(asMetadata + "List"), ListMeta: metadata, Items: []metav1.PartialObjectMetadata{}})
	}

	return open(packagesv1.PackageManifestList{
		TypeMeta: metav1.TypeMeta{Kind: packagesv1.PackageManifestListKind, APIVersion: packagesv1.GroupVersion.String()},
		ListMeta: metadata, Items: []packagesv1.PackageManifest{},
	})
}

// end is what stands behind the last one.
const end = "]}"

// open returns a list that has no items up to where its first would stand. They are its last field.
func open(list any) ([]byte, error) {
	text, err := json.Marshal(list)
	return []byte(strings.TrimSuffix(string(text), end)), err
}

func meta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: metav1.SchemeGroupVersion.String()}
}

// appendItem adds an item of a list to a text.
func (f form) appendItem(text []byte, item index.Item, version string) ([]byte, error) {
	if f.as != asTable {
		return f.appendObject(text, item, version)
	}

	name, catalog := item.Columns()
	row := metav1.TableRow{Cells: []any{name, catalog, f.age(item)}}
	var err error
	switch f.include {
	case metav1.IncludeMetadata:
		row.Object.Raw, err = form{as: asMetadata}.appendObject(nil, item, version)
	case metav1.IncludeObject:
		row.Object.Raw, err = form{}.appendObject(nil, item, version)
	}

	if err != nil {
		return nil, err
	}

	written, err := json.Marshal(row)
	return append(text, written...), err
}

// appendObject adds one object to a text.
func (f form) appendObject(text []byte, item index.Item, version string) ([]byte, error) {
	switch f.as {
	case asTable:
		text, err := f.appendBegin(text, version)
		if err != nil {
			return nil, err
		}
		text, err = f.appendItem(text, item, version)
		return append(text, end...), err
	case asMetadata:
		written, err := json.Marshal(metav1.PartialObjectMetadata{TypeMeta: meta(asMetadata), ObjectMeta: item.Metadata(version)})
		return append(text, written...), err
	}

	return item.AppendJSON(text, version)
}

func (f form) appendBegin(text []byte, version string) ([]byte, error) {
	written, err := f.begin(version)
	return append(text, written...), err
}

// age is how long the catalog of a package has been there, for people.
func (f form) age(item index.Item) string {
	if item.Catalog.Created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(f.now.Sub(item.Catalog.Created))
}

// bookmark is an object that says nothing but how far a watch is.
func (f form) bookmark(version string, initial bool) ([]byte, error) {
	metadata := metav1.ObjectMeta{ResourceVersion: version}
	if initial {
		metadata.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}

	bare := metav1.PartialObjectMetadata{TypeMeta: meta(asMetadata), ObjectMeta: metadata}
	if f.as != asMetadata {
		bare.TypeMeta = metav1.TypeMeta{Kind: packagesv1.PackageManifestKind, APIVersion: packagesv1.GroupVersion.String()}
	}

	text, err := json.Marshal(bare)
	if err != nil || f.as != asTable {
		return text, err
	}

	return json.Marshal(metav1.Table{
		TypeMeta: meta(asTable), ListMeta: metav1.ListMeta{ResourceVersion: version}, ColumnDefinitions: columns,
		Rows: []metav1.TableRow{{Cells: []any{"", "", ""}, Object: runtime.RawExtension{Raw: text}}},
	})
}
