package subscription_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// A bundle whose manifests are in the catalog, and are too large for an InstallPlan, fails its Subscription with the reason.
// It is installed when the catalog offers a smaller bundle.
func TestManifestsTooLargeForPlan(t *testing.T) {
	c := newFixture(t)
	large := catalogRelease{pkg: "a", version: "1.0.0"}
	for i := range 8 {
		manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"large-%d"},"data":{"text":%q}}`, i, strings.Repeat("x", 500<<10))
		large.properties = append(large.properties, fmt.Sprintf(`{"type":"olm.bundle.object","value":{"data":%q}}`, base64.StdEncoding.EncodeToString([]byte(manifest))))
	}
	address, stop := serveCatalog(t, "", large, catalogRelease{pkg: "b", version: "1.0.0"})
	c.createCatalog(c.global, "c", address)
	failing := c.createSubscription("a")
	c.waitForPlan(c.createSubscription("b"), "b.v1.0.0")
	c.waitForStatus(failing, func(s *v1alpha1.SubscriptionStatus) bool {
		failed := condition(s, v1alpha1.SubscriptionBundleUnpackFailed)
		return failed.Reason == v1alpha1.EnsureInstallPlanFailed && strings.HasPrefix(failed.Message, "error ensuring InstallPlan: the InstallPlan for a.v1.0.0 would have ")
	})
	if plans := c.listPlans(); len(plans) != 1 {
		t.Errorf("got %d InstallPlans, want only that of the other Subscription", len(plans))
	}

	stop()
	serveCatalog(t, address, catalogRelease{pkg: "a", version: "1.0.0"}, catalogRelease{pkg: "b", version: "1.0.0"})
	c.waitForPlan(failing, "a.v1.0.0")
	if failed := condition(&failing.Status, v1alpha1.SubscriptionBundleUnpackFailed); failed.Type != "" {
		t.Errorf("got the condition %+v, want none", failed)
	}
}
