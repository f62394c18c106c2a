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

// ExtensionRollback rolls an extension back to a bundle of an earlier revision: it pins the
// version and allows updates outside of the catalog's upgrade edges. The controller does
// the rest.
type ExtensionRollback struct {
	Client   client.Client
	Progress report.Progress

	Name string
	// Revision is the number of the revision to roll back to. Zero means the last
	// successful revision with another bundle.
	Revision int64
	// CRDUpgradeSafety, if not nil, sets whether changes of CRDs are checked from now on.
	CRDUpgradeSafety *olmv1.CRDUpgradeSafetyEnforcement
	// Generation is the generation of the extension that the rollback was chosen for. Another
	// generation is refused. Zero means any.
	Generation int64
	// Check, if not nil, makes Run check the plan before it changes anything.
	Check *PlanCheck
	// Cluster returns the configuration of the cluster, which is needed to read its
	// catalogs.
	Cluster func() (*rest.Config, error)
	// SystemNamespace is the namespace of catalogd. Empty means DefaultSystemNamespace.
	SystemNamespace string
	// Wait, if not nil, makes Run wait until the requested bundle is installed.
	Wait *Wait
}

// RollbackResult is the result of a rollback.
type RollbackResult struct {
	// Extension is the current extension.
	Extension *olmv1.ClusterExtension
	// To is the revision whose bundle is requested now.
	To RevisionRecord
	// Changed reports whether anything changed.
	Changed bool
	// Follow is the command that ends the pin, so that the extension follows the catalog as
	// before.
	Follow string
}

// Run changes the extension unless the plan is refused, and waits if requested. It returns
// an error if there is no revision to roll back to. It also does so if no catalog contains
// the bundle any more, because the controller could not resolve it. It returns the result
// also together with an error of the wait.
func (a *ExtensionRollback) Run(ctx context.Context) (*RollbackResult, error) {
	extension, target, err := a.findTarget(ctx)
	if err != nil {
		return nil, err
	}

	result := &RollbackResult{Extension: extension, To: target, Follow: newFollowCommand(a.Name, extension.Spec, a.CRDUpgradeSafety)}
	before, err := patchExtensionChoice(ctx, a.Client, a.Progress, a.planCheck(), extension, a.choiceOf(target))
	if err != nil {
		return nil, err
	}

	result.Changed = extension.Generation != before.Generation
	if a.Wait == nil {
		return result, nil
	}

	return result, waitForExtension(ctx, a.Client, a.Wait, a.Progress, extension, a.rollbackCommand())
}

// planCheck returns the check of the plan, whose advice names the command of the rollback. It is nil if none is requested.
func (a *ExtensionRollback) planCheck() *PlanCheck {
	if a.Check == nil {
		return nil
	}
	check := *a.Check
	check.rollbackCommand = a.rollbackCommand()
	return &check
}

// rollbackCommand returns the command of the rollback, without --crd-upgrade-safety.
func (a *ExtensionRollback) rollbackCommand() string {
	command := "mainstay extension rollback " + a.Name
	if a.Revision != 0 {
		command += fmt.Sprintf(" --to-revision %d", a.Revision)
	}
	return command
}

// findTarget returns the extension and the revision to roll back to, whose bundle a catalog must
// offer.
func (a *ExtensionRollback) findTarget(ctx context.Context) (*olmv1.ClusterExtension, RevisionRecord, error) {
	extension, sets, err := readRevisions(ctx, a.Client, a.Name)
	if err != nil {
		return nil, RevisionRecord{}, err
	}

	filter := extension.Spec.Source.Catalog
	if filter == nil {
		return nil, RevisionRecord{}, &report.Error{Object: describeExtension(a.Name), Err: errors.New("it does not come from a catalog")}
	}
	if err := CheckGeneration(describeExtension(a.Name), extension, a.Generation); err != nil {
		return nil, RevisionRecord{}, err
	}

	target, err := rollbackTarget(newRevisionRecords(sets), a.Name, a.Revision)
	if err != nil {
		return nil, RevisionRecord{}, err
	}
	return extension, target, a.requireOfferedBundle(ctx, filter, target)
}

// choiceOf returns the choice that pins the bundle of a revision.
func (a *ExtensionRollback) choiceOf(target RevisionRecord) Choice {
	return Choice{Version: &target.Version, SelfCertified: ptr.To(true), CRDUpgradeSafety: a.CRDUpgradeSafety}
}

// rollbackTarget returns the revision to roll back to.
func rollbackTarget(history []RevisionRecord, name string, number int64) (RevisionRecord, error) {
	refuse := func(advice, format string, args ...any) (RevisionRecord, error) {
		return RevisionRecord{}, &report.Error{Object: describeExtension(name), Err: fmt.Errorf(format, args...), Advice: advice}
	}
	at := len(history) - 1
	for at >= 0 && history[at].archived {
		at--
	}

	if at < 0 {
		return refuse("'mainstay extension explain "+name+"' shows why", "it has no active revision to roll back from")
	}

	now := history[at]
	compare := fmt.Sprintf("only its configuration differs: see 'mainstay extension diff %s', and correct spec.config", name)
	if number != 0 {
		i, err := findRevision(history, name, number)
		switch {
		case err != nil:
			return RevisionRecord{}, err
		case !history[i].isRolledOut():
			return refuse("choose another with --to-revision", "revision %d was never rolled out completely: %s", number, history[i].Message)
		case i == at:
			return refuse("'mainstay extension history "+name+"' lists the others", "revision %d is the one that is installed", number)
		case history[i].hasSameBundle(now):
			return refuse(compare, "revision %d holds the same bundle as the newest one, %s", number, now.Bundle)
		}
		return history[i], nil
	}

	same := false
	for _, r := range slices.Backward(history[:at]) {
		switch {
		case !r.isRolledOut():
		case r.hasSameBundle(now):
			same = true
		default:
			return r, nil
		}
	}

	if same {
		return refuse(compare, "every successful revision that is kept contains the same bundle, %s", now.Bundle)
	}

	return refuse("'mainstay extension history "+name+"' lists those that are kept", "there is no successful revision before revision %d to roll back to", now.Revision)
}

// requireOfferedBundle returns an error if the controller will not find the bundle. If the
// catalogs cannot be read, it only warns: the controller will report a missing bundle.
func (a *ExtensionRollback) requireOfferedBundle(ctx context.Context, filter *olmv1.CatalogFilter, target RevisionRecord) error {
	offered, err := (&catalogContentReader{Client: a.Client, Cluster: a.Cluster, SystemNamespace: a.SystemNamespace}).readSelectedCatalogs(ctx, filter)
	if err != nil {
		report.OrQuiet(a.Progress).Warn(fmt.Sprintf("cannot determine whether a catalog still contains %s: %v", target.Bundle, err))
		return nil
	}

	object := describeExtension(a.Name)
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
			Object: object, Err: &report.Reworded{Text: fmt.Sprintf("no catalog that it selects contains bundle %s (revision %d) any more", target.Bundle, target.Revision), Cause: err},
			Advice: advice,
		}
	}

	if result.Bundle.Name != target.Bundle {
		return &report.Error{
			Object: object, Err: fmt.Errorf("version %s in the catalogs is bundle %s now, not %s (revision %d)", target.Version, result.Bundle.Name, target.Bundle, target.Revision),
			Advice: "install it anyway with 'mainstay extension upgrade " + a.Name + " --version " + target.Version + " --self-certified'",
		}
	}

	return nil
}

// newFollowCommand returns the command that reverts the pin and the other changes of a
// rollback to the spec.
func newFollowCommand(name string, spec olmv1.ClusterExtensionSpec, safety *olmv1.CRDUpgradeSafetyEnforcement) string {
	filter := spec.Source.Catalog
	command := fmt.Sprintf("mainstay extension upgrade %s --version %q", name, filter.Version)
	if filter.UpgradeConstraintPolicy != olmv1.UpgradeConstraintPolicySelfCertified {
		command += " --self-certified=false"
	}
	if before := crdUpgradeSafetyEnforcement(spec); safety != nil && *safety != before {
		command += " --crd-upgrade-safety " + string(before)
	}

	return command
}

// crdUpgradeSafetyEnforcement returns whether changes of CRDs are checked. The default is
// Strict.
func crdUpgradeSafetyEnforcement(spec olmv1.ClusterExtensionSpec) olmv1.CRDUpgradeSafetyEnforcement {
	install := spec.Install
	if install == nil || install.Preflight == nil || install.Preflight.CRDUpgradeSafety == nil {
		return olmv1.CRDUpgradeSafetyEnforcementStrict
	}
	return install.Preflight.CRDUpgradeSafety.Enforcement
}
