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
	// defaultLanguage is that of a Greeting that names none.
	defaultLanguage = "en"
	// unwelcome is the one who is not greeted.
	unwelcome = "nobody"
	// maxReview bounds what is read of a review: more than an API server can store.
	maxReview = 16 << 20
)

// renamed are, by version, the names of the field that says who is greeted.
var renamed = map[string]string{"hello.example.com/v1alpha1": "name", "hello.example.com/v1beta1": "recipient"}

// serveWebhooks adds the webhooks to the server of the manager. That reads the
// certificate from /tmp/k8s-webhook-server/serving-certs, where it is mounted, and again
// whenever it changes.
func serveWebhooks(mgr ctrl.Manager) error {
	server := mgr.GetWebhookServer()
	server.Register("/validate", &admission.Webhook{Handler: admission.HandlerFunc(validate)})
	server.Register("/default", &admission.Webhook{Handler: admission.HandlerFunc(setDefaults)})
	server.Register("/convert", http.HandlerFunc(serveConversion))
	return mgr.AddReadyzCheck("webhooks", server.StartedChecker())
}

// validate refuses to greet nobody.
func validate(_ context.Context, req admission.Request) admission.Response {
	greeting := &unstructured.Unstructured{}
	if err := json.Unmarshal(req.Object.Raw, &greeting.Object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if name, _, _ := unstructured.NestedString(greeting.Object, "spec", "name"); strings.EqualFold(name, unwelcome) {
		return admission.Denied(fmt.Sprintf("spec.name: %q cannot be greeted", name))
	}
	return admission.Allowed("")
}

// setDefaults returns a Greeting a language.
func setDefaults(_ context.Context, req admission.Request) admission.Response {
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
	if err := json.NewDecoder(io.LimitReader(r.Body, maxReview)).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "this is no ConversionReview", http.StatusBadRequest)
		return
	}

	review.Response = answer(review.Request)
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func answer(request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, object := range request.Objects {
		converted, err := convert(object.Raw, request.DesiredAPIVersion)
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}

	return response
}

// convert returns a Greeting in another version, which names one field differently.
func convert(raw []byte, apiVersion string) ([]byte, error) {
	greeting := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &greeting.Object); err != nil {
		return nil, fmt.Errorf("reading a Greeting: %w", err)
	}

	from, to := renamed[greeting.GetAPIVersion()], renamed[apiVersion]
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
