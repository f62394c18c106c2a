package catalogoperator_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestTemplate: the image follows the version of the cluster.
func TestTemplate(t *testing.T) {
	f := newFixture(t, catalogoperator.Options{})
	versions, err := discovery.NewDiscoveryClientForConfig(env.Start(t))
	f.Must(err)
	info, err := versions.ServerVersion()
	f.Must(err)
	spec := image("quay.io/example/catalog:old")
	catalog := &v1alpha1.CatalogSource{Spec: spec}
	catalog.Name, catalog.Namespace = "template", f.namespace
	catalog.Annotations = map[string]string{v1alpha1.AnnotationCatalogImageTemplate: "quay.io/example/catalog:v{kube_major_version}.{kube_minor_version}"}
	f.Must(f.Create(t.Context(), catalog))
	want := fmt.Sprintf("quay.io/example/catalog:v%s.%s", info.Major, info.Minor)
	conditions := func(status, reason, message, image string) {
		t.Helper()
		f.eventually(func() error {
			if err := f.get(catalog); err != nil {
				return err
			}
			for name, text := range map[string]string{"TemplatesHaveResolved": message, "ResolvedImage": image} {
				got := meta.FindStatusCondition(catalog.Status.Conditions, name)
				if got == nil || string(got.Status) != status || got.Reason != reason || got.Message != text {
					return fmt.Errorf("%s is %+v, want %s %s %q", name, got, status, reason, text)
				}
			}
			return nil
		})
	}

	conditions("True", "AllTemplatesResolved", "catalog image reference was successfully resolved", want)
	if catalog.Spec.Image != want {
		t.Errorf("got the image %s, want %s", catalog.Spec.Image, want)
	}

	f.eventually(func() error {
		if got := f.onePod(labelServing, "template").Spec.Containers[0].Image; got != want {
			return fmt.Errorf("the pod has the image %s", got)
		}
		return nil
	})

	env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) {
		s.Annotations[v1alpha1.AnnotationCatalogImageTemplate] = "quay.io/Example/catalog:v{kube_major_version}"
	})
	conditions("False", "UnableToResolve", "cannot construct catalog image reference, because one or more template(s) has improper syntax", "quay.io/Example/catalog:v"+info.Major)
	if catalog.Spec.Image != want {
		t.Errorf("got the image %s, want %s as before", catalog.Spec.Image, want)
	}

	env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) { delete(s.Annotations, v1alpha1.AnnotationCatalogImageTemplate) })
	f.eventually(func() error {
		if err := f.get(catalog); err != nil || len(catalog.Status.Conditions) == 0 {
			return err
		}
		return fmt.Errorf("the conditions are %+v", catalog.Status.Conditions)
	})
	if catalog.Spec.Image != want {
		t.Errorf("got the image %s, want %s as before", catalog.Spec.Image, want)
	}
}

// TestTemplateWithoutImage: a template that cannot be resolved leaves the catalog without an
// image.
func TestTemplateWithoutImage(t *testing.T) {
	f := newFixture(t, catalogoperator.Options{})
	catalog := &v1alpha1.CatalogSource{Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc}}
	catalog.Name, catalog.Namespace = "only-template", f.namespace
	catalog.Annotations = map[string]string{v1alpha1.AnnotationCatalogImageTemplate: "{foobar}"}
	f.Must(f.Create(t.Context(), catalog))
	f.waitForReason(catalog, "SpecInvalidError", is("image and address unset: at least one must be set for sourcetype: grpc"))
	if got := meta.FindStatusCondition(catalog.Status.Conditions, "ResolvedImage"); got == nil || got.Reason != "UnableToResolve" || got.Message != "{foobar}" {
		t.Errorf("got the condition %+v", got)
	}

	env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) {
		s.Annotations[v1alpha1.AnnotationCatalogImageTemplate] = "quay.io/example/catalog:v{kube_major_version}"
	})
	f.onePod(labelServing, "only-template")
}
