package install_test

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"math/rand"
	"strings"
	"testing"
	"testing/fstest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

const (
	manifests = "manifests/"
	csvFile   = manifests + "hello-operator.clusterserviceversion.yaml"
	crdFile   = manifests + "hello.example.com_greetings.yaml"
)

// files are the files of a bundle, by path.
type files map[string]string

// replaceIn replaces text in a file, which must contain it.
func (f files) replaceIn(file, before, after string) {
	if !strings.Contains(f[file], before) {
		panic(fmt.Sprintf("%s holds no %q", file, before))
	}
	f[file] = strings.ReplaceAll(f[file], before, after)
}

// addBundleImage adds a changed image of an example bundle. No catalog lists it.
func (w *fixture) addBundleImage(example, version string, change func(files)) {
	w.T.Helper()
	source, err := w.filesOfImage(w.T.Context(), "quay.io/example/hello:"+example)
	w.Must(err)

	changed := files{}
	err = fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(source, path)
		changed[path] = string(data)
		return err
	})
	w.Must(err)

	changed.replaceIn(csvFile, example, version)
	change(changed)
	made := fstest.MapFS{}
	for name, text := range changed {
		made[name] = &fstest.MapFile{Data: []byte(text)}
	}

	w.mu.Lock()
	w.images["quay.io/example/hello:"+version] = made
	w.mu.Unlock()
}

// setImageLabels sets the labels of the image that addBundleImage has added.
func (w *fixture) setImageLabels(version string, labels map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.labels["quay.io/example/hello:"+version] = labels
}

// enlargeCRD adds some bytes to the description of the CRD.
func enlargeCRD(bytes int) func(files) {
	const text = "Somebody to be greeted. "
	return func(f files) {
		f.replaceIn(crdFile, "description: Somebody to be greeted.", "description: "+strings.Repeat(text, bytes/len(text)+1))
	}
}

func configMaps(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}\n", i)
	}
	return text.String()
}

// randomText returns text that does not compress.
func randomText(bytes int) string {
	data := make([]byte, bytes)
	source := rand.New(rand.NewSource(1))
	_, _ = source.Read(data)
	return base64.StdEncoding.EncodeToString(data)
}

// TestBadBundles offers bundles that can never be installed, and expects a condition
// that is final and names the file and the object. Another version is then installed
// automatically.
func TestBadBundles(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("bad-bundles")
	none := func(files) {}
	for i, tc := range []struct {
		name    string
		example string
		change  func(files)
		labels  map[string]string
		config  string
		want    string
	}{
		{
			name: "two-csvs", change: func(f files) { f[manifests+"second.yaml"] = f[csvFile] },
			want: `False Blocked validating bundle "hello-operator.v%[1]s": manifests/second.yaml: a second ClusterServiceVersion beside the one in ` + csvFile,
		}, {
			name: "no-csv", change: func(f files) { delete(f, csvFile) },
			want: `False Blocked bundle "hello-operator.v%s": no csv in bundle`,
		}, {
			name: "another-media-type-in-the-label", change: func(f files) {
				f["metadata/annotations.yaml"] = "annotations: {operators.operatorframework.io.bundle.package.v1: hello-operator}"
			},
			labels: map[string]string{bundle.KeyMediaType: "helm"},
			want:   `False Blocked bundle "hello-operator.v%s": label of the image: operators.operatorframework.io.bundle.mediatype.v1: the bundle format "helm" is not supported, only "registry+v1"`,
		}, {
			name: "bad-yaml", change: func(f files) { f[manifests+"bad.yaml"] = "a: 1\n---\nb: [" },
			want: `False Blocked validating bundle "hello-operator.v%[1]s": manifests/bad.yaml: `,
		}, {
			name: "no-object", change: func(f files) { f[manifests+"bad.yaml"] = "a: 1" },
			want: `False Blocked validating bundle "hello-operator.v%[1]s": manifests/bad.yaml: is not a Kubernetes object, its kind is missing`,
		}, {
			name: "duplicates", change: func(f files) { f[manifests+"twice.yaml"] = configMaps(1) + configMaps(1) },
			want: `False Blocked validating bundle "hello-operator.v%[1]s": duplicate ConfigMap "c0"`,
		}, {
			name: "unsupported-kind", change: func(f files) {
				f[manifests+"job.yaml"] = "{apiVersion: batch/v1, kind: Job, metadata: {name: once}}"
			},
			want: `False Blocked validating bundle "hello-operator.v%[1]s": unsupported resource "once" of kind "Job"`,
		}, {
			name: "10000-objects", change: func(f files) { f[manifests+"many.yaml"] = configMaps(10000) },
			want: `False Blocked validating bundle "hello-operator.v%[1]s": manifests/many.yaml: the bundle holds more than 2000 objects`,
		}, {
			name: "more-objects-than-a-revision-holds", change: func(f files) { f[manifests+"many.yaml"] = configMaps(1001) },
			want: `False Blocked bundle "hello-operator.v%s": its objects need 27 phases of at most 50 objects, and a revision has at most 20; 1001 of them are of kind ConfigMap`,
		}, {
			name: "too-large", change: func(f files) {
				f[manifests+"large.yaml"] = "{apiVersion: v1, kind: ConfigMap, metadata: {name: large}, data: {noise: " + randomText(1<<20) + "}}"
			},
			want: `False Blocked bundle "hello-operator.v%s": ConfigMap "large": the object has `,
		}, {
			name: "a-definition-of-3-mb", change: enlargeCRD(3 << 20),
			want: `False Blocked bundle "hello-operator.v%s": CustomResourceDefinition "greetings.hello.example.com": the object has `,
		}, {
			name: "names-that-become-one", example: "1.2.0", change: func(f files) {
				f.replaceIn(csvFile, "deploymentName: hello-operator\n      containerPort: 443\n      targetPort: 9443\n      webhookPath: /default",
					"deploymentName: hello.operator\n      containerPort: 443\n      targetPort: 9443\n      webhookPath: /default")
				const name = "        - name: hello-operator\n          label:"
				_, deployment, _ := strings.Cut(f[csvFile], name)
				f[csvFile] += strings.ReplaceAll(name, "hello-operator", "hello.operator") + deployment
			},
			want: `False Blocked validating bundle "hello-operator.v%[1]s": ` +
				`the webhooks of the deployments "hello-operator", "hello.operator" would share the Service "hello-operator-service"`,
		}, {
			name: "no-install-mode", change: func(f files) {
				f.replaceIn(csvFile, "{type: OwnNamespace, supported: true}", "{type: OwnNamespace, supported: false}")
				f.replaceIn(csvFile, "{type: SingleNamespace, supported: true}", "{type: MultiNamespace, supported: true}")
				f.replaceIn(csvFile, "{type: AllNamespaces, supported: true}", "{type: AllNamespaces, supported: false}")
			},
			want: `False Blocked validating bundle "hello-operator.v%[1]s": supported install modes [MultiNamespace]: none of`,
		}, {
			name: "another-install-mode", change: func(f files) {
				f.replaceIn(csvFile, "{type: AllNamespaces, supported: true}", "{type: AllNamespaces, supported: false}")
			},
			want: `False InvalidConfiguration error for resolved bundle "hello-operator.v%[1]s" with version "%[1]s": invalid ClusterExtension configuration: invalid configuration: required field "watchNamespace" is missing: supported install modes [OwnNamespace SingleNamespace] do not support targeting all namespaces`,
		}, {
			name: "invalid-configuration", change: none, config: `{"replicas": 3, "deploymentConfig": {"tolerations": 1}}`,
			want: `False InvalidConfiguration error for resolved bundle "hello-operator.v%[1]s" with version "%[1]s": invalid ClusterExtension configuration: invalid configuration: ` +
				`spec.config.inline.deploymentConfig.tolerations must be of type array: "integer"; unknown field "replicas": spec.config.inline.replicas is a forbidden property`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.useSubtest(t)
			version := fmt.Sprintf("0.0.%d", i+1)
			example := tc.example
			if example == "" {
				example = "1.0.0"
			}
			w.addBundleImage(example, version, tc.change)
			w.setImageLabels(version, tc.labels)
			catalog := w.createCatalog(tc.name, version)
			ext := newExtension(tc.name, "bad-bundles")
			ext.Spec.Config = inlineConfig(tc.config)
			w.CreateForTest(ext)
			want := tc.want
			if strings.Contains(want, "%") {
				want = fmt.Sprintf(want, version)
			}
			w.expectCondition(tc.name, olmv1.TypeProgressing, want)
			w.expectCondition(tc.name, olmv1.TypeInstalled, "False Failed No bundle installed")
			if tc.config != "" {
				ext = w.getExtension(tc.name)
				w.PatchObject(ext, func() { ext.Spec.Config = nil })
			} else {
				w.setCatalogVersions(catalog, "1.0.0")
			}
			w.waitForRevision(tc.name + "-1")
		})
	}
}

// TestSparseBundles installs bundles with only the required fields.
func TestSparseBundles(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("sparse")
	const version = "0.3.0"
	w.addBundleImage("1.0.0", version, func(f files) {
		f["metadata/annotations.yaml"] = "annotations: {operators.operatorframework.io.bundle.package.v1: hello-operator}"
		f.replaceIn(csvFile, "operators.coreos.com/v1alpha1", "hello.operators.coreos.com/v1alpha1")
		f.replaceIn(csvFile, "    strategy: deployment\n", "")
		f.replaceIn(csvFile, "  version: "+version+"\n", "")
	})

	w.createCatalog("sparse", version)
	w.CreateForTest(newExtension("sparse", "sparse"))
	deployments := 0
	for _, phase := range w.waitForRevision("sparse-1").Spec.Phases {
		for _, object := range phase.Objects {
			if object.Object.GetKind() == "Deployment" {
				deployments++
			}
		}
	}

	if deployments != 1 {
		t.Errorf("got %d Deployments in the revision, want 1", deployments)
	}
}

// TestForeignNamespaces expects objects that name another namespace in the namespace
// of the extension.
func TestForeignNamespaces(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("foreign")
	w.addBundleImage("1.0.0", "0.1.0", func(f files) {
		f[manifests+"foreign.yaml"] = "{apiVersion: v1, kind: ConfigMap, metadata: {name: foreign, namespace: kube-system}}"
	})
	w.createCatalog("foreign", "0.1.0")
	w.CreateForTest(newExtension("foreign", "foreign"))
	for _, p := range w.waitForRevision("foreign-1").Spec.Phases {
		for _, object := range p.Objects {
			if object.Object.GetNamespace() != "" && object.Object.GetNamespace() != "foreign" {
				t.Errorf("%s %s: got namespace %s", object.Object.GetKind(), object.Object.GetName(), object.Object.GetNamespace())
			}
		}
	}
}

// TestBadRollouts installs bundles with errors that only the API server detects.
func TestBadRollouts(t *testing.T) {
	c := env.Client(t, clientgoscheme.AddToScheme, olmv1.AddToScheme, apiextensionsv1.AddToScheme)
	w := newFixture(t)
	runRolloutController(t, c)
	w.runDeployments(c, "taken-first", "taken-second")

	t.Run("a name that another extension has", func(t *testing.T) {
		w.useSubtest(t)
		for _, name := range []string{"taken-first", "taken-second"} {
			w.createNamespace(name)
			w.createCatalog(name, "1.0.0")
		}

		w.CreateForTest(newExtension("taken-first", "taken-first"))
		w.installAndWait("taken-first", "1.0.0")
		w.CreateForTest(newExtension("taken-second", "taken-second"))
		w.expectCondition("taken-second", olmv1.TypeProgressing, `True Retrying revision object collisions: phase "crds" (2 of 6): CustomResourceDefinition 'greetings.hello.example.com' `+
			`already exists in namespace '' and cannot be managed by operator-controller`)
		w.delete(w.getExtension("taken-first"))
		w.installAndWait("taken-second", "1.0.0")
		w.deleteAndWait("taken-second")
	})

	// The size limit of etcd is configurable, so that the update is retried.
	t.Run("a definition of 1.8 MB", func(t *testing.T) {
		w.useSubtest(t)
		w.createNamespace("large")
		w.addBundleImage("1.0.0", "0.2.0", enlargeCRD(1800<<10))
		w.createCatalog("large", "0.2.0")
		w.CreateForTest(newExtension("large", "large"))
		w.expectCondition("large", olmv1.TypeProgressing, `True Retrying phase "crds" (2 of 6): CustomResourceDefinition "greetings.hello.example.com": etcdserver: request is too large`)
		w.deleteAndWait("large")
	})
}

// deleteAndWait deletes an extension and waits until it does not exist.
func (w *fixture) deleteAndWait(name string) {
	w.T.Helper()
	ext := w.getExtension(name)
	w.delete(ext)
	w.Eventually(name+" is deleted", func() error {
		w.removeFinalizers(name)
		err := w.Get(w.T.Context(), client.ObjectKeyFromObject(ext), ext)
		if err == nil {
			return fmt.Errorf("it exists with the conditions %+v", ext.Status.Conditions)
		}
		return client.IgnoreNotFound(err)
	})
}

func inlineConfig(config string) *olmv1.ClusterExtensionConfig {
	if config == "" {
		return nil
	}
	return &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: []byte(config)}}
}
