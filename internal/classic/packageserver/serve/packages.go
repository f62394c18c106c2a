package serve

import (
	"fmt"
	"iter"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
)

// query is what a list or a watch asks for.
type query struct {
	view index.View
	// name, if set, is the only one that is wanted.
	name    string
	options internalversion.ListOptions
}

// items yields what is asked for of a snapshot.
func (q query) items(s *index.Snapshot) iter.Seq[index.Item] {
	if q.name != "" {
		return s.Named(q.view, q.name)
	}
	return s.All(q.view)
}

func (h *Handler) view(info *request.RequestInfo) index.View {
	return index.View{Namespace: info.Namespace, Global: h.Global}
}

const fieldName = "metadata.name"

// query reads what a list or a watch asks for.
func (h *Handler) query(r *http.Request, info *request.RequestInfo) (query, error) {
	q := query{view: h.view(info)}
	if err := internalscheme.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion, &q.options); err != nil {
		return q, apierrors.NewBadRequest(err.Error())
	}

	labelsWanted, fieldsWanted := q.options.LabelSelector, q.options.FieldSelector
	if fieldsWanted == nil {
		fieldsWanted = fields.Everything()
	}

	for _, requirement := range fieldsWanted.Requirements() {
		if requirement.Field != fieldName {
			return q, apierrors.NewBadRequest("field label not supported: " + requirement.Field)
		}
	}

	if name, exact := fieldsWanted.RequiresExactMatch(fieldName); exact {
		q.name = name
	}
	if (labelsWanted == nil || labelsWanted.Empty()) && fieldsWanted.Empty() {
		return q, nil
	}

	q.view.Match = func(item index.Item) bool {
		if !fieldsWanted.Matches(fields.Set{fieldName: item.Package.Name}) {
			return false
		}
		return labelsWanted == nil || labelsWanted.Empty() || labelsWanted.Matches(labels.Set(item.Labels()))
	}

	return q, nil
}

// list answers with all that a query asks for. There are no pages: the index has everything at hand,
// and a client that asks for a part gets the whole.
func (h *Handler) list(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	f, err := h.formOf(r)
	if err != nil {
		return err
	}

	q, err := h.query(r, info)
	if err != nil {
		return err
	}

	snapshot, _ := h.Index.Snapshot()
	text, err := f.begin(snapshot.Version())
	if err != nil {
		return err
	}

	out := newBody(w, r)
	out.write(text)
	first := true
	for item := range q.items(snapshot) {
		text = text[:0]
		if !first {
			text = append(text, ',')
		}

		first = false
		if text, err = f.appendItem(text, item, snapshot.Version()); err != nil {
			h.Log.Error(err, "Writing a package", "catalog", item.Catalog.Key.String(), "package", item.Package.Name)
			abort()
		}

		out.write(text)
	}

	out.write([]byte(end + "\n"))
	return out.close()
}

// find returns the first package of a name that a namespace sees.
func (h *Handler) find(info *request.RequestInfo) (index.Item, string, error) {
	snapshot, _ := h.Index.Snapshot()
	for item := range snapshot.Named(h.view(info), info.Name) {
		return item, snapshot.Version(), nil
	}
	return index.Item{}, "", apierrors.NewNotFound(resource, info.Name)
}

func (h *Handler) get(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	f, err := h.formOf(r)
	if err != nil {
		return err
	}

	item, version, err := h.find(info)
	if err != nil {
		return err
	}

	text, err := f.appendObject(nil, item, version)
	if err != nil {
		return err
	}

	return writeJSON(w, r, text)
}

// icon answers with the picture of a package, or one that stands for those that have none.
func (h *Handler) icon(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	if info.Namespace == "" {
		return noPath()
	}

	item, _, err := h.find(info)
	if err != nil {
		return err
	}

	icon, err := item.Package.Icon()
	if err != nil {
		return fmt.Errorf("reading the icon: %w", err)
	}

	header := w.Header()
	header.Set("Etag", icon.ETag)
	// The picture is a stranger's. One in SVG could hold a script, and be opened as a page.
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	if r.URL.Query().Get("resourceVersion") != "" && strings.Contains(r.Header.Get("If-None-Match"), icon.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}

	mediaType, data := picture(icon)
	header.Set("Content-Type", mediaType)
	_, _ = w.Write(data) // A client that is gone misses nothing.

	return nil
}

// picture returns a picture and its media type. What is no picture is not given to browsers.
func picture(icon index.Icon) (mediaType string, data []byte) {
	if len(icon.Data) == 0 {
		return "image/svg+xml", []byte(defaultIcon)
	}

	for _, media := range []string{icon.MediaType, http.DetectContentType(icon.Data)} {
		if parsed, _, err := mime.ParseMediaType(media); err == nil && strings.HasPrefix(parsed, "image/") {
			return parsed, icon.Data
		}
	}
	return "image/svg+xml", []byte(defaultIcon)
}

// defaultIcon is a parcel.
const defaultIcon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" height="64">
<path d="M32 6 56 19v26L32 58 8 45V19z" fill="#dfe5ec" stroke="#5b6b7c" stroke-width="3" stroke-linejoin="round"/>
<path d="M8 19l24 13 24-13M32 32v26" fill="none" stroke="#5b6b7c" stroke-width="3" stroke-linejoin="round"/>
<path d="M20 12.500l24 13V35" fill="none" stroke="#5b6b7c" stroke-width="3" stroke-linejoin="round"/>
</svg>
`
