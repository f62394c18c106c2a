package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// ExtensionRollback returns an extension to a bundle that it had before, by asking for it:
// the version is pinned, and updates beside the catalog's edges are allowed. The controller
// does the rest.
type ExtensionRollback struct {
	Client   client.Client
	Progress report.Progress

	Name string
	// Revision is the number of the revision whose bundle is wanted. Zero is the last good
	// one with another bundle than now.
	Revision int64
	// CRDUpgradeSafety, when not nil, says whether changes of CRDs are checked from now on.
	CRDUpgradeSafety *olmv1.CRDUpgradeSafetyEnforcement
	// Check, when not nil, has Run look at the plan before it changes anything.
	Check *PlanCheck
	// Cluster says how the cluster is reached, to read its catalogs.
	Cluster func() (*rest.Config, error)
	// SystemNamespace is that of catalogd. Empty means olmv1-system.
	SystemNamespace string
	// Wait, when not nil, has Run wait until the extension is as it is wanted.
	Wait *Wait
}

// RolledBack is what a rollback did.
type RolledBack struct {
	// Extension as it stands then.
	Extension *olmv1.ClusterExtension
	// To is the revision whose bundle is wanted now.
	To RevisionRecord
	// Changed reports whether anything changed.
	Changed bool
	// Follow is the command that makes the extension follow the catalog as before.
	Follow string
}

// Run changes the extension, unless the plan for that is refused, and, if asked to, waits. It refuses when there is nothing to
// go back to, or when no catalog has the bundle any more: the controller would look for it
// in vain. The result is given beside an error of the wait too.
func (a *ExtensionRollback) Run(ctx context.Context) (*RolledBack, error) {
	extension, sets, err := readRevisions(ctx, a.Client, a.Name)
	if err != nil {
		return nil, err
	}

	filter := extension.Spec.Source.Catalog
	if filter == nil {
		return nil, &report.Error{Object: extensionName(a.Name), Err: errors.New("it does not come from a catalog")}
	}

	target, err := rollbackTarget(records(sets), a.Name, a.Revision)
	if err != nil {
		return nil, err
	}
	if err := a.checkOffered(ctx, filter, target); err != nil {
		return nil, err
	}

	result := &RolledBack{Extension: extension, To: target, Follow: followCommand(a.Name, extension.Spec, a.CRDUpgradeSafety)}
	choice := Choice{Version: &target.Version, SelfCertified: ptr.To(true), CRDUpgradeSafety: a.CRDUpgradeSafety}
	before, err := patchChoice(ctx, a.Client, a.Progress, a.Check, extension, choice)
	if err != nil {
		return nil, err
	}

	result.Changed = extension.Generation != before.Generation
	if a.Wait == nil {
		return result, nil
	}

	return result, waitForExtension(ctx, a.Client, a.Wait, a.Progress, extension)
}

// rollbackTarget chooses the revision whose bundle is gone back to.
func rollbackTarget(history []RevisionRecord, name string, number int64) (RevisionRecord, error) {
	refuse := func(advice, format string, args ...any) (RevisionRecord, error) {
		return RevisionRecord{}, &report.Error{Object: extensionName(name), Err: fmt.Errorf(format, args...), Advice: advice}
	}
	at := len(history) - 1
	for at >= 0 && history[at].archived {
		at--
	}

	if at < 0 {
		return refuse("'mainstay extension explain "+name+"' tells why", "it has no revision that could be left")
	}

	now := history[at]
	compare := fmt.Sprintf("what differs is its configuration: see 'mainstay extension diff %s', and put spec.config right", name)
	if number != 0 {
		i, err := find(history, name, number)
		switch {
		case err != nil:
			return RevisionRecord{}, err
		case !history[i].succeeded():
			return refuse("choose another with --to-revision", "revision %d was never rolled out completely: %s", number, history[i].Message)
		case i == at:
			return refuse("'mainstay extension history "+name+"' lists the others", "revision %d is the one that is installed", number)
		case history[i].sameBundle(now):
			return refuse(compare, "revision %d holds the same bundle as the newest one, %s", number, now.Bundle)
		}
		return history[i], nil
	}

	same := false
	for _, r := range slices.Backward(history[:at]) {
		switch {
		case !r.succeeded():
		case r.sameBundle(now):
			same = true
		default:
			return r, nil
		}
	}

	if same {
		return refuse(compare, "every good revision that is kept holds the same bundle, %s", now.Bundle)
	}

	return refuse("'mainstay extension history "+name+"' lists those that are kept", "there is no good revision before revision %d to go back to", now.Revision)
}

// checkOffered makes sure that the controller will find the bundle. Who may not read the
// catalogs is warned and goes on: the controller then says if none has it.
func (a *ExtensionRollback) checkOffered(ctx context.Context, filter *olmv1.CatalogFilter, target RevisionRecord) error {
	offered, err := (&catalogOffers{Client: a.Client, Cluster: a.Cluster, SystemNamespace: a.SystemNamespace}).read(ctx, filter)
	if err != nil {
		report.OrQuiet(a.Progress).Warn(fmt.Sprintf("whether a catalog still has %s cannot be told: %v", target.Bundle, err))
		return nil
	}

	object := extensionName(a.Name)
	result, err := resolve.Resolve(resolve.Request{
		Package: filter.PackageName, Version: target.Version, Channels: filter.Channels, Policy: olmv1.UpgradeConstraintPolicySelfCertified,
		Installed: &resolve.Installed{Name: target.Bundle, Version: target.Version, Release: target.Release},
	}, offered.catalogs)
	if err != nil {
		advice := "add a catalog that has it, with 'mainstay catalog add'; the image of the bundle is " + target.Image
		if hints := resolve.Hints(err); len(hints) > 0 {
			advice = strings.Join(hints, "; ") + "; or " + advice
		}
		return &report.Error{
			Object: object, Err: &report.Reworded{Text: fmt.Sprintf("no catalog that it may use gives bundle %s (revision %d) any more", target.Bundle, target.Revision), Cause: err},
			Advice: advice,
		}
	}

	if result.Bundle.Name != target.Bundle {
		return &report.Error{
			Object: object, Err: fmt.Errorf("version %s in the catalogs is bundle %s now, not %s (revision %d)", target.Version, result.Bundle.Name, target.Bundle, target.Revision),
			Advice: "take it all the same with 'mainstay extension upgrade " + a.Name + " --version " + target.Version + " --self-certified'",
		}
	}

	return nil
}

// followCommand is the command that undoes the pin, and what else a rollback changes of a spec.
func followCommand(name string, spec olmv1.ClusterExtensionSpec, safety *olmv1.CRDUpgradeSafetyEnforcement) string {
	filter := spec.Source.Catalog
	command := fmt.Sprintf("mainstay extension upgrade %s --version %q", name, filter.Version)
	if filter.UpgradeConstraintPolicy != olmv1.UpgradeConstraintPolicySelfCertified {
		command += " --self-certified=false"
	}
	if before := enforcementOf(spec); safety != nil && *safety != before {
		command += " --crd-upgrade-safety " + string(before)
	}

	return command
}

// enforcementOf reports whether changes of CRDs are checked; they are where the spec does not say.
func enforcementOf(spec olmv1.ClusterExtensionSpec) olmv1.CRDUpgradeSafetyEnforcement {
	install := spec.Install
	if install == nil || install.Preflight == nil || install.Preflight.CRDUpgradeSafety == nil {
		return olmv1.CRDUpgradeSafetyEnforcementStrict
	}
	return install.Preflight.CRDUpgradeSafety.Enforcement
}
