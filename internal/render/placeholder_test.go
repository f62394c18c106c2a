package render

import (
	"encoding/base64"
	"encoding/pem"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDropPlaceholderCA(t *testing.T) {
	certificate := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}))
	for _, tc := range []struct {
		name, kind, value string
		kept              bool
	}{
		{"a line feed", "CustomResourceDefinition", "Cg==", false},
		{"not base64", "CustomResourceDefinition", "?", false},
		{"a certificate", "CustomResourceDefinition", certificate, true},
		{"another kind", "ConfigMap", "Cg==", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{"kind": tc.kind}}
			path := []string{"spec", "conversion", "webhook", "clientConfig", "caBundle"}
			if err := unstructured.SetNestedField(object.Object, tc.value, path...); err != nil {
				t.Fatal(err)
			}

			DropPlaceholderCA(object)
			if _, kept, _ := unstructured.NestedString(object.Object, path...); kept != tc.kept {
				t.Errorf("got kept %v, want %v", kept, tc.kept)
			}
		})
	}
}
