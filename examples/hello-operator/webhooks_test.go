package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestAdmission(t *testing.T) {
	for _, tc := range []struct {
		name, object string
		handler      admission.HandlerFunc
		want         string // the patches, or the reason of the refusal
	}{
		{name: "a valid name", object: `{"spec": {"name": "world"}}`, handler: validateGreeting},
		{name: "a refused name", object: `{"spec": {"name": "Nobody"}}`, handler: validateGreeting, want: `spec.name: "Nobody" cannot be greeted`},
		{name: "no object", object: `[]`, handler: validateGreeting, want: "json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{name: "a configured language", object: `{"spec": {"language": "de"}}`, handler: defaultGreeting},
		{name: "no language", object: `{"spec": {"name": "world"}}`, handler: defaultGreeting, want: `{"op":"add","path":"/spec/language","value":"en"}`},
		{name: "no spec", object: `{}`, handler: defaultGreeting, want: `{"op":"add","path":"/spec","value":{"language":"en"}}`},
		{name: "no object for defaults", object: `1`, handler: defaultGreeting, want: "json: cannot unmarshal number into Go value of type map[string]interface {}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			response := tc.handler(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(tc.object)}}})
			var patches []string
			for _, patch := range response.Patches {
				patches = append(patches, patch.Json())
			}

			got := strings.Join(patches, " ")
			if !response.Allowed {
				got = response.Result.Message
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestConversion(t *testing.T) {
	const old = `{"apiVersion":"hello.example.com/v1alpha1","kind":"Greeting","metadata":{"name":"w"},"spec":{"language":"en","name":"world"}}`
	const renewed = `{"apiVersion":"hello.example.com/v1beta1","kind":"Greeting","metadata":{"name":"w"},"spec":{"language":"en","recipient":"world"}}`
	for _, tc := range []struct{ name, object, to, want, failure string }{
		{name: "to the new version", object: old, to: "hello.example.com/v1beta1", want: renewed},
		{name: "and back", object: renewed, to: "hello.example.com/v1alpha1", want: old},
		{name: "to the same", object: old, to: "hello.example.com/v1alpha1", want: old},
		{name: "to an unknown version", object: old, to: "hello.example.com/v2", failure: "cannot convert hello.example.com/v1alpha1 Greeting to hello.example.com/v2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			review := apiextensionsv1.ConversionReview{Request: &apiextensionsv1.ConversionRequest{
				UID: "1", DesiredAPIVersion: tc.to, Objects: []runtime.RawExtension{{Raw: []byte(tc.object)}},
			}}
			body, err := json.Marshal(review)
			if err != nil {
				t.Fatal(err)
			}

			recorder := httptest.NewRecorder()
			serveConversion(recorder, httptest.NewRequest(http.MethodPost, "/convert", bytes.NewReader(body)))
			var answered apiextensionsv1.ConversionReview
			if err := json.Unmarshal(recorder.Body.Bytes(), &answered); err != nil || answered.Response == nil || answered.Response.UID != "1" {
				t.Fatalf("got the response %s (error %v)", recorder.Body, err)
			}

			var got []string
			for _, object := range answered.Response.ConvertedObjects {
				got = append(got, string(object.Raw))
			}

			if diff := cmp.Diff([]string{tc.want, tc.failure}, []string{strings.Join(got, " "), answered.Response.Result.Message}); diff != "" {
				t.Errorf("object and failure (-want +got):\n%s", diff)
			}
		})
	}

	recorder := httptest.NewRecorder()
	serveConversion(recorder, httptest.NewRequest(http.MethodPost, "/convert", strings.NewReader("{}")))
	if recorder.Code != http.StatusBadRequest {
		t.Errorf("a review without a request: got status %d, want a client error", recorder.Code)
	}
}
