package rollout

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// removalProgress tracks how many phases of a revision, counted from the last, are removed. An
// inactive revision is never applied again, so its removed phases need not be checked again. After
// a restart they are.
type removalProgress struct {
	mu        sync.Mutex
	revisions map[string]revisionProgress
}

// revisionProgress is the progress of one revision. The UID distinguishes it from another
// revision of the same name.
type revisionProgress struct {
	set    types.UID
	phases int
}

func (g *removalProgress) removedPhases(set *olmv1.ClusterObjectSet) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.revisions[set.Name]; known.set == set.UID {
		return known.phases
	}
	return 0
}

func (g *removalProgress) record(set *olmv1.ClusterObjectSet, phases int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.revisions == nil {
		g.revisions = map[string]revisionProgress{}
	}
	g.revisions[set.Name] = revisionProgress{set: set.UID, phases: phases}
}

func (g *removalProgress) forget(set string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.revisions, set)
}
