package rollout

import (
	"context"
	"fmt"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

// listObjectsOfSiblings returns the objects that the other revisions of the extension want. The
// removal of this revision then hands them over instead of deleting them.
//
// Only a revision that is active and was once complete counts. It takes back all its objects in a
// single reconciliation, regardless of their state. A revision that is still being rolled out
// might be blocked by the very object that waits for it.
func (r *revisionReader) listObjectsOfSiblings(ctx context.Context, set *olmv1.ClusterObjectSet) (map[apply.Key]bool, error) {
	siblings, err := r.listSiblings(ctx, set)
	if err != nil {
		return nil, err
	}

	wanted := map[apply.Key]bool{}
	for i := range siblings {
		sibling := &siblings[i]
		if isInactiveRevision(sibling) || !hasSucceeded(sibling) {
			continue
		}

		as, err := r.clientForRemoval(ctx, sibling)
		if err != nil {
			return nil, err
		}

		content, err := r.readRevisionContent(ctx, sibling, as)
		if err != nil {
			return nil, fmt.Errorf("reading the objects of revision %q: %w", sibling.Name, err)
		}

		for _, phase := range content.Phases {
			for _, object := range phase.Objects {
				wanted[apply.KeyOf(object.Manifest)] = true
			}
		}
	}

	return wanted, nil
}
