package worker

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestInjections(t *testing.T) {
	proxy := environment{proxy: []envVar{{"HTTP_PROXY", "http://p"}, {"NO_PROXY", "local"}}}
	for name, tc := range map[string]struct {
		manifest    string
		environment environment
		want, err   string
	}{
		"proxy in the named containers": {
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"config.openshift.io/inject-proxy":"a,i"}},"spec":{"template":{"spec":{"initContainers":[{"name":"i"}],"containers":[{"name":"a","env":[{"name":"NO_PROXY","value":"x"},{"name":"A","value":"x"}]},{"name":"b"}]}}}}`, proxy,
			`{"template":{"spec":{"containers":[{"env":[{"name":"A","value":"x"},{"name":"HTTP_PROXY","value":"http://p"},{"name":"NO_PROXY","value":"local"}],"name":"a"},{"name":"b"}],"initContainers":[{"env":[{"name":"HTTP_PROXY","value":"http://p"},{"name":"NO_PROXY","value":"local"}],"name":"i"}]}}}`, "",
		},
		"no proxy": {
			`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"annotations":{"config.openshift.io/inject-proxy":"a"}},"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`, environment{},
			`{"template":{"spec":{"containers":[{"name":"a"}]}}}`, "",
		},
		"proxy in a container that does not exist": {
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"config.openshift.io/inject-proxy":"x"}},"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`, environment{},
			"", `annotation config.openshift.io/inject-proxy: there is no container "x"`,
		},
		"containers that are not a list": {
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"config.openshift.io/inject-proxy":"x"}},"spec":{"template":{"spec":{"containers":"a"}}}}`, environment{},
			"", "spec.template.spec.containers: must be a list",
		},
		"empty names are ignored": {
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"config.openshift.io/inject-proxy":",,"}},"spec":{"template":{}}}`, proxy,
			`{"template":{}}`, "",
		},
		"other kinds get no proxy": {
			`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"annotations":{"config.openshift.io/inject-proxy":"x"}},"spec":{"template":{}}}`, proxy,
			`{"template":{}}`, "",
		},
		"the address of the API server": {
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"openshift-cluster-version","name":"cluster-version-operator"},"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`,
			environment{host: "api-int.example.com", port: "6443"},
			`{"template":{"spec":{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_HOST","value":"api-int.example.com"},{"name":"KUBERNETES_SERVICE_PORT","value":"6443"}],"name":"a"}]}}}`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON([]byte(tc.manifest)); err != nil {
				t.Fatal(err)
			}

			before := u.DeepCopy()
			injected, _, err := parseInjection(u).injectInto(u, tc.environment)
			if errorText(err) != tc.err {
				t.Fatalf("got error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(before, u); diff != "" {
				t.Errorf("manifest (-before +after):\n%s", diff)
			}
			if err != nil {
				return
			}

			want := &unstructured.Unstructured{}
			if err := want.UnmarshalJSON([]byte(`{"kind":"x","spec":` + tc.want + `}`)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Object["spec"], injected.Object["spec"]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestInjectTLS(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"annotations": map[string]any{AnnotationInjectTLS: "true"}},
		"data": map[string]any{
			"config.yaml": "apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\nleaderElection: {disable: true}\nservingInfo: {bindAddress: a, minTLSVersion: old}\n",
			"other.yaml":  "apiVersion: example.com/v1\nkind: GenericOperatorConfig\n",
			"text":        "a: b: c",
		},
	}}

	profile := parseTLSProfile(map[string]any{"type": "Custom", "custom": map[string]any{"minTLSVersion": "VersionTLS11", "ciphers": []any{"ECDHE-RSA-AES128-GCM-SHA256", "NONE"}}})
	injected, _, err := parseInjection(u).injectInto(u, environment{profile: profile})
	if err != nil {
		t.Fatal(err)
	}

	got, _, _ := unstructured.NestedStringMap(injected.Object, "data")
	want := map[string]string{
		"config.yaml": "apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\nleaderElection:\n  disable: true\nservingInfo:\n  bindAddress: a\n  cipherSuites:\n  - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n  minTLSVersion: VersionTLS11\n",
		"other.yaml":  "apiVersion: example.com/v1\nkind: GenericOperatorConfig\n",
		"text":        "a: b: c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if same, _, err := parseInjection(u).injectInto(u, environment{}); err != nil || !cmp.Equal(same.Object, u.Object) {
		t.Errorf("without a profile: got %v (error %v), want the object unchanged", same, err)
	}
}

func TestTLSProfiles(t *testing.T) {
	for kind, want := range map[string]string{"Old": "VersionTLS10 21", "Intermediate": "VersionTLS12 9", "": "VersionTLS12 9", "Modern": "VersionTLS13 3", "Custom": "VersionTLS12 0"} {
		profile := parseTLSProfile(map[string]any{"type": kind})
		if got := fmt.Sprintf("%s %d", profile.MinVersion, len(profile.Ciphers)); got != want {
			t.Errorf("%q: %s, want %s", kind, got, want)
		}
	}

	for name, want := range map[string]string{
		"ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
		"ECDHE-RSA-AES128-SHA256":       "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
		"ECDHE-RSA-CHACHA20-POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
		"AES256-SHA":                    "TLS_RSA_WITH_AES_256_CBC_SHA",
		"DES-CBC3-SHA":                  "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
		"TLS_AES_128_GCM_SHA256":        "TLS_AES_128_GCM_SHA256",
		"DHE-RSA-AES128-GCM-SHA256":     "",
		"TLS_NONE":                      "",
	} {
		if got, ok := cipherIANAName(name); ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, found %v; want %q", name, got, ok, want)
		}
	}
}
