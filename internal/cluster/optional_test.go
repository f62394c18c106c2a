package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/platform"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

const (
	classicNamespace = "openshift-operator-lifecycle-manager"
	marketNamespace  = "openshift-marketplace"
)

// optionalManifests returns the manifests of OLM Classic and the marketplace in Mainstay's own
// release, by name.
func optionalManifests(t *testing.T) map[string]string {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	b := platform.Build{Root: root, Parts: []string{"operator-lifecycle-manager", "marketplace"}, Catalogs: map[string]string{"community.yaml": "a manifest"}}
	if err := b.Manifests(t.Context(), dir); err != nil {
		t.Fatal(err)
	}

	files, err := filepath.Glob(filepath.Join(dir, "release-manifests", "*.yaml"))
	if err != nil || len(files) < 20 {
		t.Fatalf("got files %v (error %v), want at least 20", files, err)
	}

	manifests := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		manifests[filepath.Base(file)] = string(text)
	}

	return manifests
}

// OLM Classic and the marketplace are installed only in clusters that enable their capabilities.
func TestOptionalCapabilities(t *testing.T) {
	f := newFixture(t)
	files := optionalManifests(t)
	content := f.newReleaseFiles("1.0.0", files)
	f.startOperator(Options{ReleaseImage: f.pushRelease(content), Payload: content})
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}, Spec: configv1.ClusterVersionSpec{
		ClusterID: "3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11", Capabilities: &configv1.ClusterVersionCapabilitiesSpec{BaselineCapabilitySet: configv1.CapabilitySetNone},
	}}
	if err := f.Create(t.Context(), cv); err != nil {
		t.Fatal(err)
	}

	f.waitForVersion("the release without optional capabilities", isComplete("1.0.0"))
	classic := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: classicNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-operators"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "olm-operator"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: classicNamespace, Name: "olm-operator"}},
	}

	market := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: marketNamespace}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "marketplace-operator"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: marketNamespace, Name: "default-catalogs"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: marketNamespace, Name: "marketplace-operator"}},
	}

	f.expectAbsent(append(classic, market...)...)
	t.Cleanup(func() { f.removeManifests(files) })

	enable := func(capabilities ...configv1.ClusterVersionCapability) {
		t.Helper()
		f.patchSpec(func(spec *configv1.ClusterVersionSpec) {
			spec.Capabilities.AdditionalEnabledCapabilities = capabilities
		})
	}

	enable(configv1.CapabilityOperatorLifecycleManager)
	f.expectPresent(classic...)
	f.expectAbsent(market...)
	enable(configv1.CapabilityOperatorLifecycleManager, configv1.CapabilityMarketplace)
	f.expectPresent(market...)

	// The marketplace reads the default catalogs from files, and its version is that of the
	// release.
	catalogs, deployment := market[2].(*corev1.ConfigMap), market[3].(*appsv1.Deployment)
	if catalogs.Data["community.yaml"] != "a manifest" {
		t.Errorf("got default catalogs %v, want community.yaml", catalogs.Data)
	}

	version := ""
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "RELEASE_VERSION" {
			version = variable.Value
		}
	}

	if version == "" {
		t.Error("got no version of the release in the environment of the marketplace, want it")
	}

	for name, text := range files {
		if strings.HasSuffix(name, "_clusterserviceversion-packageserver.yaml") && !strings.Contains(text, "- --global-namespace="+marketNamespace+"\n") {
			t.Errorf("got the package server\n%s\nwant the global namespace %s", text, marketNamespace)
		}
		if strings.Contains(text, "namespace: olm\n") || strings.Contains(text, "namespace: operators\n") {
			t.Errorf("%s refers to a namespace that the release does not have:\n%s", name, text)
		}
	}
}

// expectPresent waits until objects exist.
func (f *fixture) expectPresent(objects ...client.Object) {
	f.T.Helper()
	for _, object := range objects {
		f.EventuallyTrue(fmt.Sprintf("%T %s exists", object, object.GetName()), func() bool {
			err := f.Get(f.T.Context(), client.ObjectKeyFromObject(object), object)
			f.Must(client.IgnoreNotFound(err))
			return err == nil
		}, func() string {
			cv := &configv1.ClusterVersion{}
			f.Must(f.Get(f.T.Context(), client.ObjectKey{Name: "version"}, cv))
			return describeVersion(cv)
		})
	}
}

// expectAbsent checks that objects do not exist.
func (f *fixture) expectAbsent(objects ...client.Object) {
	f.T.Helper()
	for _, object := range objects {
		if err := f.Get(f.T.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			f.T.Errorf("%T %s: got error %v, want that it does not exist", object, object.GetName(), err)
		}
	}
}

// removeManifests stops the operator and removes the objects of manifests. CRDs stay, because
// all tests share them.
func (f *fixture) removeManifests(manifests map[string]string) {
	f.stop()
	for name, text := range manifests {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			f.T.Fatalf("%s: %v", name, err)
		}

		var err error
		if object.GetKind() == "CustomResourceDefinition" {
			// No controller runs that detects the deletion of the owner.
			err = f.Patch(context.Background(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`)))
		} else {
			err = f.Delete(context.Background(), object)
		}

		if client.IgnoreNotFound(err) != nil {
			f.T.Errorf("%s: %v", name, err)
		}
		if object.GetKind() == "Namespace" {
			f.finalizeNamespace(object.GetName())
		}
	}
}

// finalizeNamespace removes the finalizer of a namespace, because no controller does.
func (f *fixture) finalizeNamespace(name string) {
	namespace := &corev1.Namespace{}
	err := f.Get(context.Background(), client.ObjectKey{Name: name}, namespace)
	if err == nil {
		namespace.Spec.Finalizers = nil
		err = f.Client.SubResource("finalize").Update(context.Background(), namespace)
	}
	if client.IgnoreNotFound(err) != nil {
		f.T.Errorf("namespace %s: %v", name, err)
	}
}
