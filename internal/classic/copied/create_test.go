package copied

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// A copy is created from its encoded content, and only its metadata is requested. An error has the causes that the API server
// states.
func TestCreateCopy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.Header.Get("Accept") != metadataOnly || string(body) != `{"spec":{}}` {
			t.Errorf("got %s with Accept %q and the body %s, want a POST of the content for metadata", r.Method, r.Header.Get("Accept"), body)
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/apis/operators.coreos.com/v1alpha1/namespaces/ending/clusterserviceversions" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"details":{"causes":[{"reason":"NamespaceTerminating"}]}}`)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"op","namespace":"home","uid":"u","resourceVersion":"7"}}`)
	}))
	defer server.Close()
	client, err := apiutil.RESTClientForGVK(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind), true, false, &rest.Config{Host: server.URL},
		serializer.NewCodecFactory(env.Scheme(t, v1alpha1.AddToScheme, corev1.AddToScheme)), server.Client())
	if err != nil {
		t.Fatal(err)
	}

	creator := &copyCreator{client: client, resource: "clusterserviceversions"}
	created, err := creator.createCopy(t.Context(), "home", []byte(`{"spec":{}}`))
	if err != nil || created.Namespace != "home" || created.Name != "op" || created.UID != "u" || created.ResourceVersion != "7" {
		t.Errorf("got %+v, error %v; want the metadata of the response", created, err)
	}
	if _, err := creator.createCopy(t.Context(), "ending", []byte(`{"spec":{}}`)); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("got error %v in a terminating namespace, want one with that cause", err)
	}
}
