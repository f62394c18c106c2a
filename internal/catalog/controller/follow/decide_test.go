package follow

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

func TestDecideContent(t *testing.T) {
	stored := func(image string) *catalogstore.Info {
		return &catalogstore.Info{Source: catalogstore.Source{Resolved: image}}
	}
	selected := &olmv1.ClusterCatalog{Status: olmv1.ClusterCatalogStatus{
		ResolvedSource: &olmv1.ResolvedCatalogSource{Image: &olmv1.ResolvedImageSource{Ref: "r@new"}},
	}}
	deleted, unavailable := selected.DeepCopy(), selected.DeepCopy()
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	unavailable.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
	failure := errors.New("down")
	for name, test := range map[string]struct {
		facts  facts
		want   action
		source string
		err    error
	}{
		"the leader":           {facts: facts{isLeader: true}, want: actionLeave},
		"no catalog":           {want: actionRemove},
		"a deleted catalog":    {facts: facts{catalog: deleted}, want: actionRemove},
		"unavailable":          {facts: facts{catalog: unavailable}, want: actionRemove},
		"nothing selected":     {facts: facts{catalog: &olmv1.ClusterCatalog{}}},
		"nothing stored":       {facts: facts{catalog: selected}, want: actionRetrieve, source: "r@new"},
		"another image stored": {facts: facts{catalog: selected, stored: stored("r@old")}, want: actionRetrieve, source: "r@new"},
		"stored":               {facts: facts{catalog: selected, stored: stored("r@new")}, want: actionKeep},
		"a running retrieval":  {facts: facts{catalog: selected, retrieval: pull.Running}},
		"a retrieval ended":    {facts: facts{catalog: selected, retrieval: pull.Ended}},
		"a retrieval failed":   {facts: facts{catalog: selected, retrieval: pull.Ended, retrievalError: failure}, err: failure},
	} {
		t.Run(name, func(t *testing.T) {
			got := decideContent(test.facts)
			if got.action != test.want || got.source.Resolved != test.source || !errors.Is(got.err, test.err) {
				t.Errorf("got action %d, source %q, error %v; want %d, %q, %v", got.action, got.source.Resolved, got.err, test.want, test.source, test.err)
			}
		})
	}
}
