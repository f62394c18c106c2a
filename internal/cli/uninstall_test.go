package cli_test

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// createExtension creates an extension, as a user would with kubectl.
func (c *fixture) createExtension(name string) {
	c.T.Helper()
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ext.Spec.Namespace = "kitchen"
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: name}}
	c.Must(c.Create(c.T.Context(), ext))
}

// createManagedResources creates a CRD and a Namespace that belong to a revision of an extension, and custom
// resources of users.
func (c *fixture) createManagedResources(extension, plural, kind string, namespaces ...string) {
	c.T.Helper()
	yes := true
	meta := metav1.ObjectMeta{
		Name:   plural + ".kitchen.example.com",
		Labels: map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: extension},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind, Name: extension + "-1", UID: "0b8f0b52-6a0c-4d8e-9a43-fd5ffc1c8e5f", Controller: &yes,
		}},
	}

	crd := builder.CRD("kitchen.example.com", plural, kind)
	crd.ObjectMeta = meta
	c.Must(c.Create(c.T.Context(), crd))

	meta.Name = plural
	c.Must(c.Create(c.T.Context(), &corev1.Namespace{ObjectMeta: meta}))
	for _, namespace := range namespaces {
		c.Must(client.IgnoreAlreadyExists(c.Create(c.T.Context(), withName(&corev1.Namespace{}, namespace))))
		c.Eventually("an object of the kind is created", func() error {
			return c.Create(c.T.Context(), object("kitchen.example.com/v1", kind, namespace, "mine", nil).Object)
		})
	}
}

// deletingAnnotations returns the annotations of an extension that is being deleted.
func (c *fixture) deletingAnnotations(name string) map[string]string {
	c.T.Helper()
	ext := withName(&olmv1.ClusterExtension{}, name)
	c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(ext), ext))
	if ext.DeletionTimestamp.IsZero() {
		c.T.Errorf("extension %s is not being deleted", name)
	}
	return ext.Annotations
}

// requireNotDeleting checks that extensions exist and are not being deleted.
func (c *fixture) requireNotDeleting(names ...string) {
	c.T.Helper()
	for _, name := range names {
		ext := withName(&olmv1.ClusterExtension{}, name)
		c.Must(c.Get(c.T.Context(), client.ObjectKeyFromObject(ext), ext))
		if !ext.DeletionTimestamp.IsZero() {
			c.T.Errorf("extension %s is being deleted", name)
		}
	}
}

// Uninstalling extensions does not delete custom resources without consent.
func testRemoval(c *fixture, step stepFunc) {
	for _, name := range []string{"oven", "stove", "grill"} {
		c.createExtension(name)
		c.addFinalizer(withName(&olmv1.ClusterExtension{}, name), olmv1.FinalizerCleanupContentManagerCache)
	}

	c.setExtensionStatus("oven", "1.0.0", condition("Installed", "True", "Succeeded", "", 0))
	c.createManagedResources("oven", "trays", "Tray", "kitchen", "garden")
	c.createManagedResources("stove", "pans", "Pan")

	step("removal-refused", "mainstay extension uninstall oven")
	step("removal-dry-run", "mainstay extension uninstall oven stove grill --dry-run")
	step("removal-dry-run-keep", "mainstay extension uninstall oven --dry-run --keep-crds")
	step("removal-several-refused", "mainstay extension uninstall grill stove oven")
	step("removal-several-unknown", "mainstay extension uninstall grill nobody")
	step("removal-both", "mainstay extension uninstall oven --keep-crds --delete-custom-resources")
	step("removal-everything-refused", "mainstay uninstall --delete-extensions")
	check(c.T, "cluster/removal-answer-no", command{line: words("mainstay extension uninstall oven --keep-crds"), in: "\n", interactive: true})
	check(c.T, "cluster/removal-no-answer", command{line: words("mainstay extension uninstall grill"), interactive: true})
	c.requireNotDeleting("oven", "stove", "grill")

	check(c.T, "cluster/removal-answer-yes", command{line: words("mainstay extension uninstall oven --keep-crds"), in: "yes\n", interactive: true})
	if got := c.deletingAnnotations("oven")[olmv1.AnnotationKeepCRDs]; got != "true" {
		c.T.Errorf("annotation %s of oven: got %q, want true", olmv1.AnnotationKeepCRDs, got)
	}

	// Without custom resources, no consent is required, but the annotation for the admission policy is set.
	check(c.T, "cluster/removal-several", command{
		line: words("mainstay extension uninstall stove grill stove --yes --wait"), interactive: true, on: []reaction{
			{"delete grill: waiting for finalizers", func() {
				c.setExtensionStatus("grill", "", condition("Progressing", "True", "RollingOut", `removing revision grill-1: removing phase "deploy" (2 of 2) waits for ConfigMap "kitchen/coal": it is being deleted`, 0))
			}},
			{"removing revision grill-1", func() {
				if got := c.deletingAnnotations("stove")[olmv1.AnnotationDeleteCustomResources]; got != "true" {
					c.T.Errorf("annotation %s of stove: got %q, want true", olmv1.AnnotationDeleteCustomResources, got)
				}
				c.removeFinalizers(withName(&olmv1.ClusterExtension{}, "stove"))
				c.removeFinalizers(withName(&olmv1.ClusterExtension{}, "grill"))
			}},
		},
	})

	// The command also waits for an extension that is being deleted already.
	step("removal-blocked", "mainstay extension uninstall oven --keep-crds --wait",
		reaction{"finalizers", func() {
			c.setExtensionStatus("oven", "1.0.0", condition("Progressing", "False", "Blocked", `the removal waits: it breaks bundle "cake.v1.0.0" of extension "cake". Remove those first`, 0))
		}})
	c.removeFinalizers(withName(&olmv1.ClusterExtension{}, "oven"))
	for _, name := range []string{"trays", "pans"} {
		c.Must(c.Delete(c.T.Context(), withName(&apiextensionsv1.CustomResourceDefinition{}, name+".kitchen.example.com")))
	}
}
