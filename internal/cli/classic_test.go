package cli_test

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// restoreClassicKinds waits until the CRDs of OLM Classic are deleted, and creates them again: other tests use the same API
// server.
func (c *fixture) restoreClassicKinds() {
	c.T.Helper()
	objects, err := (&action.Installation{Classic: true}).Objects()
	c.Must(err)
	for _, object := range objects {
		crd := withName(&apiextensionsv1.CustomResourceDefinition{}, object.GetName())
		if object.GetKind() == "CustomResourceDefinition" && strings.HasSuffix(crd.Name, ".operators.coreos.com") {
			c.WaitUntilGone(crd, "", crd.Name)
			c.Must(c.Create(c.T.Context(), object))
			c.waitForKind(object)
		}
	}
}

// waitForKind waits until the API server lists the kind of a CRD, as new clients request it.
func (c *fixture) waitForKind(crd *unstructured.Unstructured) {
	c.T.Helper()
	served, err := discovery.NewDiscoveryClientForConfig(env.Start(c.T))
	c.Must(err)
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	c.Eventually("the kinds are served", func() error {
		_, lists, err := served.ServerGroupsAndResources()
		if err != nil {
			return err
		}
		for _, list := range lists {
			if !strings.HasPrefix(list.GroupVersion, group+"/") {
				continue
			}
			if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
				_, err := served.ServerResourcesForGroupVersion(list.GroupVersion)
				return err
			}
		}
		return fmt.Errorf("the API server does not list %s", kind)
	})
}

// OLM Classic is an optional part of an installation.
func testClassicPart(c *fixture, step stepFunc) {
	step("install-unknown-part", "mainstay install --with classics")
	step("install-catalogs-alone", "mainstay install --default-catalogs")
	step("install-classic", "mainstay install --with classic --default-catalogs -o name")
	catalog := &operatorsv1alpha1.CatalogSource{}
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Namespace: "olm", Name: "operatorhubio-catalog"}, catalog))

	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: "kettle.v1.0.0"}}
	csv.Spec.DisplayName = "Kettle"
	csv.Spec.InstallStrategy.StrategyName = "deployment"
	c.Must(c.Create(c.T.Context(), csv))
	step("uninstall-classic-refused", "mainstay uninstall --with classic")
	step("uninstall-without-classic", "mainstay uninstall")
	c.waitForDeletionOfExtensionKinds()
	step("uninstall-classic-keep-crds", "mainstay uninstall --with classic --keep-crds")
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(csv), csv))
	c.Must(c.Delete(c.T.Context(), csv))
	step("uninstall-classic", "mainstay uninstall --with classic")
	c.restoreClassicKinds()
	c.requireDeleting(withName(&corev1.Namespace{}, "olm"))
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Name: "operators"}, &corev1.Namespace{}))
}
