package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// defaultLanguage is the language of a Greeting without one.
	defaultLanguage = "en"
	// rejectedName is the name that validation rejects.
	rejectedName = "nobody"
	// maxReviewBytes bounds the size of a review. It is more than an API server can store.
	maxReviewBytes = 16 << 20
)

// nameFields are the names, by API version, of the field with the name to greet.
var nameFields = map[string]string{"hello.example.com/v1alpha1": "name", "hello.example.com/v1beta1": "recipient"}

// registerWebhooks registers the webhooks with the server of the manager. The server reads its
// certificate from /tmp/k8s-webhook-server/serving-certs, where it is mounted, and reloads it
// when it changes. wrap changes the handlers.
func registerWebhooks(mgr ctrl.Manager, wrap func(http.Handler) http.Handler) error {
	server := mgr.GetWebhookServer()
	server.Register("/validate", wrap(&admission.Webhook{Handler: admission.HandlerFunc(validateGreeting)}))
	server.Register("/default", wrap(&admission.Webhook{Handler: admission.HandlerFunc(defaultGreeting)}))
	server.Register("/convert", wrap(http.HandlerFunc(serveConversion)))
	return mgr.AddReadyzCheck("webhooks", server.StartedChecker())
}

// validateGreeting rejects Greetings with the name nobody.
func validateGreeting(_ context.Context, req admission.Request) admission.Response {
	greeting := &unstructured.Unstructured{}
	if err := json.Unmarshal(req.Object.Raw, &greeting.Object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if name, _, _ := unstructured.NestedString(greeting.Object, "spec", "name"); strings.EqualFold(name, rejectedName) {
		return admission.Denied(fmt.Sprintf("spec.name: %q cannot be greeted", name))
	}
	return admission.Allowed("")
}

// defaultGreeting sets the default language of a Greeting.
func defaultGreeting(_ context.Context, req admission.Request) admission.Response {
	greeting := &unstructured.Unstructured{}
	if err := json.Unmarshal(req.Object.Raw, &greeting.Object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if language, _, _ := unstructured.NestedString(greeting.Object, "spec", "language"); language != "" {
		return admission.Allowed("")
	}
	if err := unstructured.SetNestedField(greeting.Object, defaultLanguage, "spec", "language"); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}

	changed, err := json.Marshal(greeting.Object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}

	return admission.PatchResponseFromRaw(req.Object.Raw, changed)
}

// serveConversion converts Greetings between versions.
func serveConversion(w http.ResponseWriter, r *http.Request) {
	review := &apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxReviewBytes)).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "this is no ConversionReview", http.StatusBadRequest)
		return
	}

	review.Response = convertObjects(review.Request)
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func convertObjects(request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, object := range request.Objects {
		converted, err := convertGreeting(object.Raw, request.DesiredAPIVersion)
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}

	return response
}

// convertGreeting converts a Greeting to another version, which has another name for one field.
func convertGreeting(raw []byte, apiVersion string) ([]byte, error) {
	greeting := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &greeting.Object); err != nil {
		return nil, fmt.Errorf("reading a Greeting: %w", err)
	}

	from, to := nameFields[greeting.GetAPIVersion()], nameFields[apiVersion]
	if from == "" || to == "" {
		return nil, fmt.Errorf("cannot convert %s %s to %s", greeting.GetAPIVersion(), greeting.GetKind(), apiVersion)
	}

	greeting.SetAPIVersion(apiVersion)
	if spec, ok := greeting.Object["spec"].(map[string]any); ok && from != to {
		if name, has := spec[from]; has {
			spec[to] = name
			delete(spec, from)
		}
	}

	return json.Marshal(greeting.Object)
}
