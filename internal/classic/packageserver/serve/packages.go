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

// listQuery has the parameters of a list or a watch.
type listQuery struct {
	view index.View
	// name is set if the field selector selects a single package.
	name    string
	options internalversion.ListOptions
}

// selectItems yields the packages of a snapshot that the query selects.
func (q listQuery) selectItems(s *index.Snapshot) iter.Seq[index.Item] {
	if q.name != "" {
		return s.Named(q.view, q.name)
	}
	return s.All(q.view)
}

// viewForRequest returns the view of the namespace in a request.
func (h *Handler) viewForRequest(info *request.RequestInfo) index.View {
	return index.View{Namespace: info.Namespace, Global: h.Global}
}

const fieldName = "metadata.name"

// parseListQuery reads the parameters of a list or a watch.
func (h *Handler) parseListQuery(r *http.Request, info *request.RequestInfo) (listQuery, error) {
	q := listQuery{view: h.viewForRequest(info)}
	if err := internalscheme.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion, &q.options); err != nil {
		return q, apierrors.NewBadRequest(err.Error())
	}

	labelSelector, fieldSelector := q.options.LabelSelector, q.options.FieldSelector
	if fieldSelector == nil {
		fieldSelector = fields.Everything()
	}

	for _, requirement := range fieldSelector.Requirements() {
		if requirement.Field != fieldName {
			return q, apierrors.NewBadRequest("field label not supported: " + requirement.Field)
		}
	}

	if name, exact := fieldSelector.RequiresExactMatch(fieldName); exact {
		q.name = name
	}
	if (labelSelector == nil || labelSelector.Empty()) && fieldSelector.Empty() {
		return q, nil
	}

	q.view.Match = func(item index.Item) bool {
		if !fieldSelector.Matches(fields.Set{fieldName: item.Package.Name}) {
			return false
		}
		return labelSelector == nil || labelSelector.Empty() || labelSelector.Matches(labels.Set(item.Labels()))
	}

	return q, nil
}

// serveList answers with all packages that a query selects. It ignores limits, because the
// index has all packages in memory; there are no pages.
func (h *Handler) serveList(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	f, err := h.negotiateFormat(r)
	if err != nil {
		return err
	}

	q, err := h.parseListQuery(r, info)
	if err != nil {
		return err
	}

	snapshot, _ := h.Index.Snapshot()
	text, err := f.listPrefix(snapshot.Version())
	if err != nil {
		return err
	}

	out := newResponseBody(w, r)
	out.append(text)
	first := true
	for item := range q.selectItems(snapshot) {
		text = text[:0]
		if !first {
			text = append(text, ',')
		}

		first = false
		if text, err = f.appendListItem(text, item, snapshot.Version()); err != nil {
			h.Log.Error(err, "Encoding a package", "catalog", item.Catalog.Key.String(), "package", item.Package.Name)
			abortResponse()
		}

		out.append(text)
	}

	out.append([]byte(listSuffix + "\n"))
	return out.close()
}

// findPackage returns the first package with the requested name that a namespace sees, and the
// resource version.
func (h *Handler) findPackage(info *request.RequestInfo) (index.Item, string, error) {
	snapshot, _ := h.Index.Snapshot()
	for item := range snapshot.Named(h.viewForRequest(info), info.Name) {
		return item, snapshot.Version(), nil
	}
	return index.Item{}, "", apierrors.NewNotFound(packageManifestResource, info.Name)
}

func (h *Handler) serveGet(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	f, err := h.negotiateFormat(r)
	if err != nil {
		return err
	}

	item, version, err := h.findPackage(info)
	if err != nil {
		return err
	}

	text, err := f.appendSingleObject(nil, item, version)
	if err != nil {
		return err
	}

	return writeJSON(w, r, text)
}

// serveIcon answers with the icon of a package, or a default icon.
func (h *Handler) serveIcon(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	if info.Namespace == "" {
		return newNotFoundError()
	}

	item, _, err := h.findPackage(info)
	if err != nil {
		return err
	}

	icon, err := item.Package.Icon()
	if err != nil {
		return fmt.Errorf("reading the icon: %w", err)
	}

	header := w.Header()
	header.Set("Etag", icon.ETag)
	// The icon comes from the catalog. An SVG could contain a script and be opened as a page.
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	if r.URL.Query().Get("resourceVersion") != "" && strings.Contains(r.Header.Get("If-None-Match"), icon.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}

	mediaType, data := iconForBrowser(icon)
	header.Set("Content-Type", mediaType)
	_, _ = w.Write(data) // An error means that the client has disconnected.

	return nil
}

// iconForBrowser returns the media type and data of an icon. Data that is not an image is
// replaced by the default icon.
func iconForBrowser(icon index.Icon) (mediaType string, data []byte) {
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

// defaultIcon shows a parcel.
const defaultIcon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" height="64">
<path d="M32 6 56 19v26L32 58 8 45V19z" fill="#dfe5ec" stroke="#5b6b7c" stroke-width="3" stroke-linejoin="round"/>
<path d="M8 19l24 13 24-13M32 32v26" fill="none" stroke="#5b6b7c" stroke-width="3" stroke-linejoin="round"/>
<path d="M20 12.500l24 13V35" fill="none" stroke="#5b6b7c" stroke-width="3" stroke-linejoin="round"/>
</svg>
`
