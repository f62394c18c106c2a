package render

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

func testBundle(t testing.TB, name string) *bundle.Bundle {
	t.Helper()
	b, err := bundle.Load(os.DirFS(filepath.Join("testdata", "bundles", name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stream writes objects as a YAML stream.
func stream(t *testing.T, objects []unstructured.Unstructured) []byte {
	t.Helper()
	var text bytes.Buffer
	for _, object := range objects {
		doc, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(doc)
	}

	return text.Bytes()
}

func TestRender(t *testing.T) {
	const config = `{"deploymentConfig": {
		"annotations": {"tier": "config", "team": "a"},
		"env": [{"name": "LOG_LEVEL", "value": "debug"}, {"name": "HTTP_PROXY", "value": "http://proxy.example"}],
		"envFrom": [{"secretRef": {"name": "extra"}}],
		"nodeSelector": {"disk": "fast"},
		"resources": {"requests": {"cpu": "100m"}},
		"tolerations": [{"key": "dedicated", "operator": "Exists"}],
		"volumes": [{"name": "ca", "configMap": {"name": "trusted-ca"}}],
		"volumeMounts": [{"name": "ca", "mountPath": "/etc/pki"}],
		"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
			{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}}}`

	for _, c := range []struct {
		bundle, name, watch, config string
		issuer                      Issuer
		access                      bool
	}{
		{bundle: "foo", name: "all-namespaces"},
		{bundle: "foo", name: "single-namespace", watch: "team-a"},
		{bundle: "foo", name: "own-namespace", watch: "foo-system"},
		{bundle: "foo", name: "deployment-config", config: config},
		{bundle: "hooks", name: "webhooks"},
		{bundle: "hooks", name: "webhooks-cert-manager", issuer: IssuerCertManager},
		{bundle: "foo", name: "access-roles", access: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, untouched := testBundle(t, c.bundle), testBundle(t, c.bundle)
			parsed, err := ParseConfig(b, []byte(c.config))
			if err != nil {
				t.Fatal(err)
			}

			opts := Options{InstallNamespace: "foo-system", WatchNamespace: c.watch, DeploymentConfig: parsed.DeploymentConfig, Issuer: c.issuer, AccessRoles: c.access}
			objects, err := Render(b, opts)
			if err != nil {
				t.Fatal(err)
			}

			golden.Check(t, c.name+".yaml", stream(t, objects))
			checkObjects(t, objects, opts)
			checkComplete(t, b, opts, objects)
			if diff := cmp.Diff(untouched, b); diff != "" {
				t.Errorf("Render changed the bundle (-before +after):\n%s", diff)
			}
		})
	}
}

// checkObjects checks the rules that hold for every rendered bundle.
func checkObjects(t *testing.T, objects []unstructured.Unstructured, opts Options) {
	t.Helper()
	seen := map[identity]bool{}
	for _, object := range objects {
		id := identityOf(object)
		if seen[id] {
			t.Errorf("%v is rendered twice, want once", id)
		}

		seen[id] = true
		if id.name == "" || object.GetAPIVersion() == "" {
			t.Errorf("%v lacks a name or an API version", id)
		}

		namespaced, known := kindNamespaced[id.Kind]
		switch id.Kind {
		case "Deployment", "Issuer", "Certificate":
			namespaced, known = true, true
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			known = true
		}

		allowed := []string{""}
		if namespaced {
			allowed = []string{opts.InstallNamespace}
		}
		if id.Kind == "Role" || id.Kind == "RoleBinding" {
			allowed = append(allowed, opts.WatchNamespace)
		}
		if !known || !slices.Contains(allowed, id.namespace) || namespaced && id.namespace == "" {
			t.Errorf("%v: got namespace %q, want one that the options allow", id, id.namespace)
		}
		if _, has := object.Object["status"]; has {
			t.Errorf("%v: got a status, want none", id)
		}
		if at, has, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", "creationTimestamp"); has {
			t.Errorf("%v: got creationTimestamp %v, want none", id, at)
		}
	}
}

func TestRenderOrderDoesNotDependOnTheBundle(t *testing.T) {
	b := testBundle(t, "foo")
	want, err := Render(b, Options{InstallNamespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}

	slices.Reverse(b.Objects)
	strategy := &b.CSV.Spec.InstallStrategy.StrategySpec
	slices.Reverse(strategy.Permissions)
	strategy.ClusterPermissions = append(strategy.ClusterPermissions, strategy.ClusterPermissions[0]) // stated twice
	got, err := Render(b, Options{InstallNamespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another order of the bundle's content (-want +got):\n%s", diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	err := Validate(testBundle(t, "bad"))
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got error %v, want a RefusedError", err)
	}

	golden.Check(t, "bad.txt", []byte(strings.Join(refused.Reasons, "\n")+"\n"))
	for range 20 { // several checks go over maps
		if again := Validate(testBundle(t, "bad")); again.Error() != err.Error() {
			t.Fatalf("for the same bundle: got error\n%v\nwant\n%v", again, err)
		}
	}

	if _, got := Render(testBundle(t, "bad"), Options{InstallNamespace: "ns"}); got == nil || got.Error() != err.Error() {
		t.Errorf("Render: got error %v, want %v as from Validate", got, err)
	}
}

func TestRenderRefusesOneThing(t *testing.T) {
	const clash = "foo.v1.2.3-foo-con-" // a prefix of the name of a generated role
	for _, c := range []struct {
		name   string
		change func(*bundle.Bundle)
		opts   Options
		want   string
	}{
		{
			name:   "no install namespace",
			change: func(*bundle.Bundle) {},
			want:   "rendering a bundle needs an install namespace",
		}, {
			name:   "an unknown issuer",
			change: func(*bundle.Bundle) {},
			opts:   Options{InstallNamespace: "ns", Issuer: "vault"},
			want:   `unknown issuer of certificates "vault"`,
		}, {
			name:   "no package",
			change: func(b *bundle.Bundle) { b.Package = "" },
			opts:   Options{InstallNamespace: "ns"},
			want:   `validating bundle "foo.v1.2.3": package name is empty`,
		}, {
			name:   "content that the loader omitted",
			change: func(b *bundle.Bundle) { b.Omitted = []string{"manifests/role.yaml: document 1: yaml: line 3"} },
			opts:   Options{InstallNamespace: "ns"},
			want:   `validating bundle "foo.v1.2.3": manifests/role.yaml: document 1: yaml: line 3`,
		}, {
			name:   "an invalid version",
			change: func(b *bundle.Bundle) { b.CSV.Spec.Version = "one" },
			opts:   Options{InstallNamespace: "ns"},
			want:   `validating bundle "foo.v1.2.3": spec.version "one" is not a semantic version: `,
		}, {
			name:   "another install strategy",
			change: func(b *bundle.Bundle) { b.CSV.Spec.InstallStrategy.StrategyName = "helm" },
			opts:   Options{InstallNamespace: "ns"},
			want:   `validating bundle "foo.v1.2.3": unsupported install strategy "helm"`,
		}, {
			name:   "no install modes",
			change: func(b *bundle.Bundle) { b.CSV.Spec.InstallModes = nil },
			opts:   Options{InstallNamespace: "ns"},
			want:   `validating bundle "foo.v1.2.3": supported install modes []: none of AllNamespaces, OwnNamespace and SingleNamespace is among them`,
		}, {
			name: "only one namespace",
			change: func(b *bundle.Bundle) {
				b.CSV.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
			},
			opts: Options{InstallNamespace: "ns"},
			want: `invalid configuration: required field "watchNamespace" is missing: supported install modes [OwnNamespace] do not support targeting all namespaces: in spec.config.inline set watchNamespace to "ns", the install namespace`,
		}, {
			name:   "mount without volume",
			change: func(*bundle.Bundle) {},
			opts: Options{InstallNamespace: "ns", DeploymentConfig: &v1alpha1.SubscriptionConfig{
				VolumeMounts: []corev1.VolumeMount{{Name: "ca", MountPath: "/etc/pki"}},
			}},
			want: `invalid configuration: deploymentConfig.volumeMounts names the volume "ca", which the deployment "foo-controller" does not have`,
		}, {
			name: "an object with the name of a generated one",
			change: func(b *bundle.Bundle) {
				rendered, err := Render(b, Options{InstallNamespace: "ns"})
				if err != nil {
					t.Fatal(err)
				}
				for _, object := range rendered {
					if object.GetKind() == "ClusterRole" && strings.HasPrefix(object.GetName(), clash) {
						changed := object.DeepCopy()
						changed.Object["rules"] = []any{}
						b.Objects = append(b.Objects, *changed)
						return
					}
				}
				t.Fatalf("got no ClusterRole %s, want one", clash)
			},
			opts: Options{InstallNamespace: "ns"},
			want: `is shipped by the bundle and also follows from its ClusterServiceVersion`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := testBundle(t, "foo")
			c.change(b)
			_, err := Render(b, c.opts)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

// TestRenderAcceptsSparseCSV checks that a CSV without an install strategy and without a version is rendered.
func TestRenderAcceptsSparseCSV(t *testing.T) {
	want, err := Render(testBundle(t, "foo"), Options{InstallNamespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}

	sparse := testBundle(t, "foo")
	sparse.CSV.Spec.InstallStrategy.StrategyName, sparse.CSV.Spec.Version = "", ""
	got, err := Render(sparse, Options{InstallNamespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects of a sparse CSV (-want +got):\n%s", diff)
	}
}

// TestRenderRecognizesCSVByKind checks that a CSV in an API group of its own is rendered like any other, as bundle
// images have it, and that another kind of its API group is not a CSV.
func TestRenderRecognizesCSVByKind(t *testing.T) {
	want, err := Render(testBundle(t, "foo"), Options{InstallNamespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}

	for _, apiVersion := range []string{"binding.operators.coreos.com/v1alpha1", "v1alpha1"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "bundles", "foo"))); err != nil {
			t.Fatal(err)
		}

		csvFile := filepath.Join(dir, "manifests", "foo.clusterserviceversion.yaml")
		csv, err := os.ReadFile(csvFile)
		if err != nil {
			t.Fatal(err)
		}

		renamed := strings.Replace(string(csv), "apiVersion: operators.coreos.com/v1alpha1\n", "apiVersion: "+apiVersion+"\n", 1)
		if renamed == string(csv) {
			t.Fatalf("%s does not contain the apiVersion of a CSV", csvFile)
		}
		if err := os.WriteFile(csvFile, []byte(renamed), 0o600); err != nil {
			t.Fatal(err)
		}

		loaded, err := bundle.Load(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Render(loaded, Options{InstallNamespace: "ns"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("objects of a CSV of %s (-want +got):\n%s", apiVersion, diff)
		}
	}
}

func TestPriorityOfShippedServiceAccount(t *testing.T) {
	objects, err := Render(testBundle(t, "foo"), Options{InstallNamespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}

	for _, object := range objects {
		if object.GetKind() == kindServiceAccount && object.GetName() == "foo-controller" {
			if secrets, _, _ := unstructured.NestedSlice(object.Object, "imagePullSecrets"); len(secrets) != 1 {
				t.Errorf("got the pull secrets %v of the service account, want that of the bundle", secrets)
			}
			return
		}
	}

	t.Error("the service account foo-controller is missing")
}

func objectCounts(objects []unstructured.Unstructured) map[string]int {
	counts := map[string]int{}
	for _, object := range objects {
		counts[object.GetKind()]++
	}
	return counts
}

// checkComplete checks that every object of a bundle was rendered, with names that are short
// enough.
func checkComplete(t *testing.T, b *bundle.Bundle, opts Options, objects []unstructured.Unstructured) {
	t.Helper()
	shipped := slices.Concat(b.CRDs, b.Objects)
	want, got := objectCounts(shipped), objectCounts(objects)
	strategy := b.CSV.Spec.InstallStrategy.StrategySpec
	want["Deployment"] += len(strategy.DeploymentSpecs)
	namespaced, clusterWide := len(strategy.Permissions), len(strategy.ClusterPermissions)
	if opts.WatchNamespace == "" {
		namespaced, clusterWide = 0, namespaced+clusterWide
	}

	want["Role"] += namespaced
	want["RoleBinding"] += namespaced
	want["ClusterRole"] += clusterWide
	if opts.AccessRoles && len(b.CRDs) > 0 {
		want["ClusterRole"] += 3
	}

	want["ClusterRoleBinding"] += clusterWide
	served := map[string]bool{}
	for _, webhook := range b.CSV.Spec.WebhookDefinitions {
		served[webhook.DeploymentName] = true
		switch webhook.Type {
		case v1alpha1.ValidatingAdmissionWebhook:
			want["ValidatingWebhookConfiguration"]++
		case v1alpha1.MutatingAdmissionWebhook:
			want["MutatingWebhookConfiguration"]++
		}
	}

	want["Service"] += len(served)
	for kind := range want {
		if kind != kindServiceAccount && got[kind] != want[kind] { // Shipped service accounts replace generated ones.
			t.Errorf("got %d objects of kind %s, want %d", got[kind], kind, want[kind])
		}
	}

	for _, object := range objects {
		made := !slices.ContainsFunc(shipped, func(s unstructured.Unstructured) bool {
			return s.GetKind() == object.GetKind() && s.GetName() == object.GetName()
		})
		webhook := strings.HasSuffix(object.GetKind(), "WebhookConfiguration") // named by the author
		if made && !webhook && len(object.GetName()) > maxNameLength {
			t.Errorf("%s %s: got a name of %d characters, want fewer", object.GetKind(), object.GetName(), len(object.GetName()))
		}
	}
}
