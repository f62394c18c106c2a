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

// Handler answers requests for PackageManifests. Its fields must not be changed while it
// serves.
type Handler struct {
	// Index holds the packages.
	Index *index.Index
	// Global is the namespace whose catalogs all namespaces see. It may be empty.
	Global string
	// Authenticator and Authorizer check requests.
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
	// AlwaysAllow are paths that need no authentication or authorization. A trailing * matches
	// any suffix.
	AlwaysAllow []string
	// Ready returns why the server is not ready, or nil. It may be nil.
	Ready func() error
	// Clock is the clock. If it is nil, the real time is used.
	Clock clock.PassiveClock
	// Log receives errors.
	Log logr.Logger

	inFlight inFlightLimiter
}

var packageManifestResource = packagesv1.GroupVersion.WithResource(packagesv1.PackageManifestResource).GroupResource()

var requestInfoFactory = request.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
	info, err := requestInfoFactory.NewRequestInfo(r)
	if err != nil {
		writeStatusError(w, apierrors.NewBadRequest(err.Error()))
		return
	}

	leave, ok := h.inFlight.acquire(info.Verb == "watch")
	if !ok {
		w.Header().Set("Retry-After", "1")
		writeStatusError(w, apierrors.NewTooManyRequests("the package server is busy: try again", 1))
		return
	}
	defer leave()
	if err := h.authorizeRequest(r, info); err != nil {
		writeStatusError(w, err)
		return
	}
	if err := h.routeRequest(w, r, info); err != nil {
		writeStatusError(w, err)
	}
}

// authorizeRequest authenticates and authorizes a request. It returns an API error if the request is
// refused.
func (h *Handler) authorizeRequest(r *http.Request, info *request.RequestInfo) error {
	for _, path := range h.AlwaysAllow {
		if prefix, wild := strings.CutSuffix(path, "*"); info.Path == path || (wild && strings.HasPrefix(info.Path, prefix)) {
			return nil
		}
	}

	response, ok, err := h.Authenticator.AuthenticateRequest(r)
	if err != nil {
		h.Log.V(1).Info("Request refused: authentication failed", "path", info.Path, "error", err.Error())
	}
	if err != nil || !ok {
		return apierrors.NewUnauthorized("Unauthorized")
	}

	decision, reason, err := h.Authorizer.Authorize(r.Context(), newAttributes(response.User, info))
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		h.Log.Error(err, "Checking whether a request is allowed", "path", info.Path)
		return apierrors.NewInternalError(fmt.Errorf("checking whether %q may %s %s: %w", response.User.GetName(), info.Verb, info.Path, err))
	}
	if !info.IsResourceRequest {
		return newForbiddenError(fmt.Sprintf("User %q cannot %s path %q", response.User.GetName(), info.Verb, info.Path), reason)
	}

	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q", response.User.GetName(), info.Verb, formatResource(info), info.APIGroup)
	if info.Namespace != "" {
		text += fmt.Sprintf(" in the namespace %q", info.Namespace)
	}

	return newForbiddenError(text, reason)
}

func formatResource(info *request.RequestInfo) string {
	if info.Subresource != "" {
		return info.Resource + "/" + info.Subresource
	}
	return info.Resource
}

func newForbiddenError(text, reason string) error {
	if reason != "" {
		text += ": " + reason
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "forbidden: " + text,
	}}
}

func newAttributes(who user.Info, info *request.RequestInfo) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: who, Verb: info.Verb, Namespace: info.Namespace, APIGroup: info.APIGroup, APIVersion: info.APIVersion,
		Resource: info.Resource, Subresource: info.Subresource, Name: info.Name, ResourceRequest: info.IsResourceRequest, Path: info.Path,
	}
}

// routeRequest passes an authorized request on by its resource and verb.
func (h *Handler) routeRequest(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	if !info.IsResourceRequest {
		return h.serveNonResource(w, r)
	}
	if info.APIGroup != packagesv1.GroupVersion.Group || info.APIVersion != packagesv1.GroupVersion.Version || info.Resource != packagesv1.PackageManifestResource {
		return newNotFoundError()
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return apierrors.NewMethodNotSupported(packageManifestResource, info.Verb)
	}

	switch {
	case len(info.Parts) > 3 || (info.Subresource != "" && info.Subresource != "icon"):
		return newNotFoundError()
	case info.Subresource == "icon":
		return h.serveIcon(w, r, info)
	case info.Verb == "watch":
		return h.serveWatch(w, r, info)
	case info.Verb == "list":
		return h.serveList(w, r, info)
	case info.Namespace == "":
		return newNotFoundError() // Packages are namespaced.
	}

	return h.serveGet(w, r, info)
}

// serveNonResource answers health probes, discovery and OpenAPI.
func (h *Handler) serveNonResource(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed, Message: "only GET is supported",
		}}
	}

	switch r.URL.Path {
	case "/livez", "/healthz":
		return writePlainText(w, "ok")
	case "/readyz":
		if h.Ready != nil {
			if err := h.Ready(); err != nil {
				return apierrors.NewServiceUnavailable(err.Error())
			}
		}
		return writePlainText(w, "ok")
	}

	if document := discoveryDocuments()[strings.TrimSuffix(r.URL.Path, "/")]; document != nil {
		return document.writeIfModified(w, r)
	}
	return newNotFoundError()
}

func newNotFoundError() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource",
	}}
}

func (h *Handler) currentTime() time.Time {
	if h.Clock == nil {
		return time.Now()
	}
	return h.Clock.Now()
}
