package serve

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
)

// Handler answers requests. Its fields are not changed any more once it does.
type Handler struct {
	// Index has what is served.
	Index *index.Index
	// Global is the namespace whose catalogs all namespaces see. Empty stands for none.
	Global string
	// Authenticator says who asks, and Authorizer whether they may.
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
	// AlwaysAllow are paths that are answered whoever asks. One that ends in * stands for all that
	// begin like it.
	AlwaysAllow []string
	// Ready says why the server is not ready to be asked, nil when it is.
	Ready func() error
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
	// Log is told what goes wrong.
	Log logr.Logger

	inFlight inFlight
}

var resource = packagesv1.GroupVersion.WithResource(packagesv1.PackageManifestResource).GroupResource()

var requests = request.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
	info, err := requests.NewRequestInfo(r)
	if err != nil {
		writeError(w, apierrors.NewBadRequest(err.Error()))
		return
	}

	leave, ok := h.inFlight.enter(info.Verb == "watch")
	if !ok {
		w.Header().Set("Retry-After", "1")
		writeError(w, apierrors.NewTooManyRequests("the package server is busy: try again", 1))
		return
	}

	defer leave()
	if err := h.allow(r, info); err != nil {
		writeError(w, err)
		return
	}
	if err := h.answer(w, r, info); err != nil {
		writeError(w, err)
	}
}

// allow asks the cluster who asks and whether they may.
func (h *Handler) allow(r *http.Request, info *request.RequestInfo) error {
	for _, path := range h.AlwaysAllow {
		if prefix, wild := strings.CutSuffix(path, "*"); info.Path == path || (wild && strings.HasPrefix(info.Path, prefix)) {
			return nil
		}
	}

	who, ok, err := h.Authenticator.AuthenticateRequest(r)
	if err != nil {
		h.Log.V(1).Info("A request is refused: who asks is not known", "path", info.Path, "error", err.Error())
	}
	if err != nil || !ok {
		return apierrors.NewUnauthorized("Unauthorized")
	}

	decision, reason, err := h.Authorizer.Authorize(r.Context(), attributes(who.User, info))
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		h.Log.Error(err, "Asking the cluster whether a request is allowed", "path", info.Path)
		return apierrors.NewInternalError(fmt.Errorf("asking the cluster whether %q may %s %s: %w", who.User.GetName(), info.Verb, info.Path, err))
	}
	if !info.IsResourceRequest {
		return forbidden(fmt.Sprintf("User %q cannot %s path %q", who.User.GetName(), info.Verb, info.Path), reason)
	}

	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q", who.User.GetName(), info.Verb, resourceText(info), info.APIGroup)
	if info.Namespace != "" {
		text += fmt.Sprintf(" in the namespace %q", info.Namespace)
	}

	return forbidden(text, reason)
}

func resourceText(info *request.RequestInfo) string {
	if info.Subresource != "" {
		return info.Resource + "/" + info.Subresource
	}
	return info.Resource
}

func forbidden(text, reason string) error {
	if reason != "" {
		text += ": " + reason
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "forbidden: " + text,
	}}
}

func attributes(who user.Info, info *request.RequestInfo) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: who, Verb: info.Verb, Namespace: info.Namespace, APIGroup: info.APIGroup, APIVersion: info.APIVersion,
		Resource: info.Resource, Subresource: info.Subresource, Name: info.Name, ResourceRequest: info.IsResourceRequest, Path: info.Path,
	}
}

// answer answers a request that is allowed.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	if !info.IsResourceRequest {
		return h.answerPath(w, r)
	}
	if info.APIGroup != packagesv1.GroupVersion.Group || info.APIVersion != packagesv1.GroupVersion.Version || info.Resource != packagesv1.PackageManifestResource {
		return noPath()
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return apierrors.NewMethodNotSupported(resource, info.Verb)
	}

	switch {
	case len(info.Parts) > 3 || (info.Subresource != "" && info.Subresource != "icon"):
		return noPath()
	case info.Subresource == "icon":
		return h.icon(w, r, info)
	case info.Verb == "watch":
		return h.watch(w, r, info)
	case info.Verb == "list":
		return h.list(w, r, info)
	case info.Namespace == "":
		return noPath() // A package is seen from a namespace.
	}

	return h.get(w, r, info)
}

// answerPath answers what is no request for packages.
func (h *Handler) answerPath(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed, Message: "only GET is answered here",
		}}
	}

	switch r.URL.Path {
	case "/livez", "/healthz":
		return writeText(w, "ok")
	case "/readyz":
		if h.Ready != nil {
			if err := h.Ready(); err != nil {
				return apierrors.NewServiceUnavailable(err.Error())
			}
		}
		return writeText(w, "ok")
	}

	if document := documents()[strings.TrimSuffix(r.URL.Path, "/")]; document != nil {
		return document.write(w, r)
	}
	return noPath()
}

func noPath() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource",
	}}
}

func (h *Handler) now() time.Time {
	if h.Clock == nil {
		return time.Now()
	}
	return h.Clock.Now()
}
