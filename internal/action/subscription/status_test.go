package subscription_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
)

func TestWatchedBy(t *testing.T) {
	const annotation = "olm.targetNamespaces"
	for _, test := range []struct {
		name        string
		annotations map[string]string
		want        subscription.Watched
	}{
		{"not known yet", map[string]string{"olm.operatorGroup": "group"}, subscription.Watched{}},
		{"all namespaces", map[string]string{annotation: ""}, subscription.Watched{WatchesAll: true}},
		{"one namespace", map[string]string{annotation: "team-a"}, subscription.Watched{Watches: []string{"team-a"}}},
		{"two namespaces", map[string]string{annotation: "team-a,team-b"}, subscription.Watched{Watches: []string{"team-a", "team-b"}}},
	} {
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
		if got := subscription.WatchedBy(csv); got.WatchesAll != test.want.WatchesAll || !slices.Equal(got.Watches, test.want.Watches) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}
