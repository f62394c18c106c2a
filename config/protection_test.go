package config_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// With the policy that protects custom resources, an extension whose deletion would delete CRDs
// can only be deleted after a user has decided whether to keep them.
func TestProtectCustomResources(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme, corev1.AddToScheme)
	kubectl(t, "apply", "--server-side", "-f", "crd/olm.operatorframework.io_clusterextensions.yaml")
	kubectl(t, "apply", "--server-side", "-k", "protect-custom-resources")
	defer kubectl(t, "delete", "-k", "protect-custom-resources")

	create := func(name, deletesCRDs string, annotations map[string]string) *olmv1.ClusterExtension {
		t.Helper()
		ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
		ext.Spec.Namespace = "default"
		ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: name}}
		if err := c.Create(t.Context(), ext); err != nil {
			t.Fatal(err)
		}

		if deletesCRDs != "" {
			ext.Status.Conditions = []metav1.Condition{{
				Type: olmv1.TypeDeletesCRDs, Status: metav1.ConditionStatus(deletesCRDs), Reason: olmv1.ReasonCRDsOwned, LastTransitionTime: metav1.Now(),
			}}
			if err := c.Status().Update(t.Context(), ext); err != nil {
				t.Fatal(err)
			}
		}

		return ext
	}

	protected := create("protected", "True", nil)
	// A policy takes effect a moment after it was created.
	for {
		err := c.Delete(t.Context(), protected, client.DryRunAll)
		if err != nil && strings.Contains(err.Error(), `Set the annotation mainstay.dev/keep-crds: "true" to keep them, or mainstay.dev/delete-custom-resources: "true" to delete them`) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal("got a deletion that is never refused, want an error")
		case <-time.After(20 * time.Millisecond):
		}
	}

	keep := map[string]string{olmv1.AnnotationKeepCRDs: "true"}
	kept := create("kept", "False", keep)
	err := c.Delete(t.Context(), kept, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if err == nil || !strings.Contains(err.Error(), "foreground deletion would delete the CRDs") {
		t.Errorf("foreground deletion of an extension that keeps its CRDs: got %v, want it refused", err)
	}

	for _, ext := range []*olmv1.ClusterExtension{
		kept, create("kept-just-now", "True", keep), create("without-crds", "", nil),
		create("consent", "True", map[string]string{olmv1.AnnotationDeleteCustomResources: "true"}),
	} {
		if err := c.Delete(t.Context(), ext); err != nil {
			t.Errorf("deleting %s: got %v, want no error", ext.Name, err)
		}
	}

	if err := c.Delete(t.Context(), protected); err == nil {
		t.Error("got the protected extension deleted, want it kept")
	}
}
