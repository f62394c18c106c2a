package install_test

import (
	"testing"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
)

// An extension that names a missing service account is installed if service accounts are
// ignored, with the rights of operator-controller. Otherwise it waits.
func TestServiceAccountThatDoesNotExist(t *testing.T) {
	for name, ignored := range map[string]bool{"ignored": true, "honored": false} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, func(c *install.Controller) { c.IgnoreServiceAccount = ignored })
			namespace := name + "-account"
			w.createNamespace(namespace)
			w.createCatalog(namespace, "1.0.0")
			ext := newExtension(namespace, namespace)
			ext.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: "never-created"}
			w.CreateForTest(ext)
			if !ignored {
				w.expectCondition(namespace, olmv1.TypeProgressing, `True Retrying installation cannot proceed due to missing ServiceAccount: create ServiceAccount "never-created"`)
				return
			}

			set := w.waitForRevision(namespace + "-1")
			for _, key := range []string{olmv1.AnnotationServiceAccountName, olmv1.AnnotationServiceAccountNamespace} {
				if got, ok := set.Annotations[key]; ok {
					t.Errorf("annotation %s of the revision: got %q, want none", key, got)
				}
			}

			if got := w.getExtension(namespace).Spec.ServiceAccount; got == nil || got.Name != "never-created" {
				t.Errorf("spec.serviceAccount: got %v, want it unchanged", got)
			}
		})
	}
}
