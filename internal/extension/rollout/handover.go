package rollout

import (
	"context"
	"fmt"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
)

// markWantedBySiblings marks the objects that another revision of the extension wants. The removal
// of this revision then hands them over instead of deleting them: deleting a CRD would delete
// every object of its kind.
//
// Only a revision that is active and was once complete counts. It takes back all its objects in a
// single reconciliation, whatever state they are in. A revision that is still being rolled out
// might be blocked by the very object that waits for it.
func (a *attempt) markWantedBySiblings(ctx context.Context, set *olmv1.ClusterObjectSet, phases []apply.Phase) error {
	siblings, err := a.listSiblings(ctx, set)
	if err != nil {
		return err
	}

	wanted := map[apply.Key]bool{}
	for i := range siblings {
		sibling := &siblings[i]
		if isInactiveRevision(sibling) || !hasSucceeded(sibling) {
			continue
		}

		content, err := a.readRevisionContent(ctx, sibling, account.ForRevision(sibling))
		if err != nil {
			return fmt.Errorf("reading the objects of revision %q: %w", sibling.Name, err)
		}

		for _, phase := range content.Phases {
			for _, object := range phase.Objects {
				wanted[apply.KeyOf(object.Manifest)] = true
			}
		}
	}

	for _, phase := range phases {
		for i := range phase.Objects {
			phase.Objects[i].WantedBySibling = wanted[apply.KeyOf(phase.Objects[i].Manifest)]
		}
	}

	return nil
}
