package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/test/scenario/classic"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// migrationPlan is the output of `mainstay migrate subscription --dry-run -o json`.
type migrationPlan struct {
	Findings []migrationFinding
}

type migrationFinding struct {
	Severity, Check, Object, Message, Acknowledge string
}

// knownBlockers are the checks of `mainstay migrate subscription` that a bundle may fail by itself.
var knownBlockers = []string{"APIServices", "InstallMode", "Dependencies", "Bundle", "Configuration"}

// acknowledgePending accepts that an update waits for approval.
const acknowledgePending = "not-steady-state"

// migrateOperator moves an installed operator to OLM v1 with everything acknowledged, and removes the
// extension.
func migrateOperator(ctx context.Context, site *classic.Site, operator *classic.Operator, b *classic.Bundle) (trial.Outcome, string) {
	plan, err := planMigration(ctx, site, operator)
	if err != nil {
		return trial.Unexpected, err.Error()
	}

	accepted, obstacles, unknown := plan.sortFindings()
	names := slices.Sorted(maps.Keys(accepted))
	switch {
	case unknown != "":
		return trial.Unexpected, "the migration is refused: " + unknown
	case len(obstacles) > 0:
		return trial.Kept, strings.Join(obstacles, "; ")
	}

	before, err := listDeployments(ctx, site, operator.Namespace)
	if err != nil {
		return trial.Unexpected, err.Error()
	}
	// catalog-operator may offer the next version after the plan was read.
	args := []string{"migrate", "subscription", operator.Package.Name, "--namespace", operator.Namespace, "--acknowledge", acknowledgePending}
	for _, name := range names {
		if name != acknowledgePending {
			args = append(args, "--acknowledge", name)
		}
	}
	if _, err := site.Mainstay(ctx, args...); err != nil {
		return trial.Unexpected, err.Error()
	}
	if _, err := site.Mainstay(ctx, "migrate", "subscription", operator.Package.Name, "--namespace", operator.Namespace, "--confirm"); err != nil {
		return trial.Unexpected, err.Error()
	}

	if err := checkMigration(ctx, site, operator, b, before); err != nil {
		return trial.Unexpected, err.Error()
	}
	if err := uninstallExtension(ctx, site, operator.Package.Name); err != nil {
		return trial.Unexpected, err.Error()
	}

	var questions []string
	for _, name := range names {
		questions = append(questions, "accepted "+name+": "+accepted[name])
	}
	return trial.Migrated, strings.Join(questions, "; ")
}

// planMigration returns the plan of a migration. The command returns an error if a finding prevents
// the migration, but still prints the plan.
func planMigration(ctx context.Context, site *classic.Site, operator *classic.Operator) (*migrationPlan, error) {
	out, err := site.Mainstay(ctx, "migrate", "subscription", operator.Package.Name, "--namespace", operator.Namespace, "--dry-run", "-o", "json")
	plan := &migrationPlan{}
	if json.Unmarshal([]byte(out), plan) == nil {
		return plan, nil
	}
	return nil, fmt.Errorf("no plan of the migration: %w", err)
}

// sortFindings returns the acknowledgements that the plan asks for with their reasons, the known
// blockers, and another blocker.
func (p *migrationPlan) sortFindings() (accepted map[string]string, obstacles []string, unknown string) {
	accepted = map[string]string{}
	for _, finding := range p.Findings {
		text := finding.Check + ": " + finding.Object + ": " + finding.Message
		switch {
		case finding.Acknowledge != "":
			accepted[finding.Acknowledge] = finding.Message
		case finding.Severity != "Blocker":
		case slices.Contains(knownBlockers, finding.Check):
			obstacles = append(obstacles, text)
		default:
			unknown = text
		}
	}

	return accepted, obstacles, unknown
}

// listDeployments returns the UIDs of the Deployments of a namespace by name.
func listDeployments(ctx context.Context, site *classic.Site, namespace string) (map[string]types.UID, error) {
	var list appsv1.DeploymentList
	if err := site.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}

	found := map[string]types.UID{}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].UID
	}
	return found, nil
}

// checkMigration checks that the extension works, that it has the same Deployments as before, and that
// OLM Classic does not manage the operator any more.
func checkMigration(ctx context.Context, site *classic.Site, operator *classic.Operator, b *classic.Bundle, before map[string]types.UID) error {
	err := trial.WaitFor(ctx, func(ctx context.Context) error {
		extension := &olmv1.ClusterExtension{}
		if err := site.Get(ctx, client.ObjectKey{Name: operator.Package.Name}, extension); err != nil {
			return err
		}

		installed := extension.Status.Install != nil && extension.Status.Install.Bundle.Version == b.Version.Original()
		if !installed || !meta.IsStatusConditionTrue(extension.Status.Conditions, olmv1.TypeAvailable) {
			return fmt.Errorf("the extension does not work: %+v", extension.Status.Conditions)
		}
		return nil
	})
	if err != nil {
		return err
	}

	after, err := listDeployments(ctx, site, operator.Namespace)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return fmt.Errorf("the Deployments were replaced: %v before, %v after", before, after)
	}
	if _, err := operator.ReadFacts(ctx); client.IgnoreNotFound(err) != nil || err == nil {
		return errors.Join(err, errors.New("the Subscription still exists"))
	}
	return nil
}

// uninstallExtension uninstalls an extension and waits until nothing of it is left.
func uninstallExtension(ctx context.Context, site *classic.Site, name string) error {
	if _, err := site.Mainstay(ctx, "extension", "uninstall", name, "--delete-custom-resources", "--wait"); err != nil {
		return err
	}
	return trial.WaitFor(ctx, func(ctx context.Context) error {
		left, err := site.ListObjects(ctx, olmv1.LabelOwnerKind+"="+olmv1.ClusterExtensionKind+","+olmv1.LabelOwnerName+"="+name)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left behind: %s", strings.Join(left, ", "))
		}
		return err
	})
}
