package install_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// A catalog that is not available is not read, even if its content is still served. As soon
// as it is available, extensions that wait for it are installed.
func TestDisabledCatalogsOfferNothing(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("disabled")
	catalog := w.createCatalog("disabled", "1.0.0")
	w.setServingCondition(catalog, metav1.ConditionFalse, olmv1.ReasonUserSpecifiedUnavailable)
	w.CreateForTest(newExtension("disabled", "disabled"))
	w.expectCondition("disabled", olmv1.TypeProgressing, `True Retrying no bundles found for package "hello-operator"`)

	w.setServingCondition(catalog, metav1.ConditionTrue, olmv1.ReasonAvailable)
	w.markSucceeded(w.waitForRevision("disabled-1"))
	w.expectCondition("disabled", olmv1.TypeProgressing, "True Succeeded desired state reached")
	w.deleteAndWait("disabled")
}

func (w *fixture) setServingCondition(catalog *olmv1.ClusterCatalog, status metav1.ConditionStatus, reason string) {
	w.T.Helper()
	w.PatchStatus(catalog, func() {
		meta.SetStatusCondition(&catalog.Status.Conditions, metav1.Condition{Type: olmv1.TypeServing, Status: status, Reason: reason})
	})
}
