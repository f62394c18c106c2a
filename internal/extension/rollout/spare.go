package rollout

import (
	"context"
	"fmt"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
)

// spare marks the objects that another revision of the extension wants, so that giving up
// this one hands them over instead of deleting them: with a CustomResourceDefinition every
// object of its kind would go.
//
// That revision is one that was rolled out before and is not given up. It takes back what
// it wants in a single pass, whatever state the objects are in; a revision on its way might
// be held up by the very object that waits for it.
func (a *attempt) spare(ctx context.Context, set *olmv1.ClusterObjectSet, phases []apply.Phase) error {
	siblings, err := a.siblings(ctx, set)
	if err != nil {
		return err
	}

	wanted := map[apply.Key]bool{}
	for i := range siblings {
		sibling := &siblings[i]
		if isGivingUp(sibling) || !isSucceeded(sibling) {
			continue
		}

		content, err := a.readContent(ctx, sibling, account.Of(sibling))
		if err != nil {
			return fmt.Errorf("reading what revision %q wants: %w", sibling.Name, err)
		}

		for _, phase := range content.Phases {
			for _, object := range phase.Objects {
				wanted[apply.KeyOf(object.Manifest)] = true
			}
		}
	}

	for _, phase := range phases {
		for i := range phase.Objects {
			phase.Objects[i].Wanted = wanted[apply.KeyOf(phase.Objects[i].Manifest)]
		}
	}

	return nil
}
