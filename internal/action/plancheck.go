package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// PlanCheck makes an operation check the plan first and change nothing if the plan has
// problems.
type PlanCheck struct {
	// SystemNamespace is the namespace of operator-controller and catalogd. Empty means
	// DefaultSystemNamespace.
	SystemNamespace string
	// Timeout limits the wait for the plan. Zero means until the context ends.
	Timeout time.Duration
	// Cluster returns the configuration of the cluster, which is needed to read its
	// catalogs for suggestions. Nil means no suggestions.
	Cluster func() (*rest.Config, error)

	// rollbackCommand is the command of the rollback that is checked. It is empty for other changes.
	rollbackCommand string
}

// patchExtensionChoice applies a choice to an extension on the cluster. If check is not
// nil, it checks the plan first. It returns the extension before the change and updates the
// given one.
func patchExtensionChoice(ctx context.Context, c client.Client, progress report.Progress, check *PlanCheck, extension *olmv1.ClusterExtension, choice Choice) (*olmv1.ClusterExtension, error) {
	name := describeExtension(extension.Name)
	if !extension.DeletionTimestamp.IsZero() {
		return nil, &report.Error{
			Object: name, Err: errors.New("it is being deleted"),
			Advice: fmt.Sprintf("'mainstay extension status %s' shows what the removal waits for; install it again when it is gone", extension.Name),
		}
	}

	before := extension.DeepCopy()
	if err := choice.applyToSpec(&extension.Spec); err != nil {
		return nil, &report.Error{Object: name, Err: err, Advice: "write the selector in the syntax of kubectl: 'key=value,other in (a,b)'"}
	}

	isPlannedOnly := extension.Annotations[olmv1.AnnotationPlan] == olmv1.PlanOnly
	if check != nil && !isPlannedOnly && !equality.Semantic.DeepEqual(before.Spec, extension.Spec) {
		if _, err := check.requirePlanForChoice(ctx, c, progress, extension.Name, choice); err != nil {
			return nil, err
		}
		// The request of the plan has changed the extension.
		if err := c.Get(ctx, client.ObjectKeyFromObject(before), extension); err != nil {
			return nil, NewServerError(name, err)
		}
		before = extension.DeepCopy()
		if err := choice.applyToSpec(&extension.Spec); err != nil {
			return nil, &report.Error{Object: name, Err: err}
		}
	}

	// The optimistic lock preserves concurrent changes: a merge patch replaces whole lists.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, extension, patch); err != nil {
		return nil, NewServerError(name, err)
	}

	return before, nil
}

// requirePlanForChoice requests a plan for a change of an existing extension and returns it. It
// returns an error if the plan is refused.
func (c *PlanCheck) requirePlanForChoice(ctx context.Context, reader client.Client, progress report.Progress, name string, choice Choice) (found *Plan, err error) {
	plan := &ExtensionPlan{
		Client: reader, Progress: progress, SystemNamespace: c.SystemNamespace,
		Install: ExtensionInstall{Name: name, Choice: choice},
	}
	extension, withdraw, err := plan.requestPlan(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, withdrawInTime(ctx, withdraw)) }()
	if err := choice.applyToSpec(&extension.Spec); err != nil {
		return nil, err
	}

	return c.requireAcceptedPlan(ctx, plan, extension, func(PlanProblem) bool { return false })
}

// withdrawInTime withdraws the request of a plan, also after the context has ended.
func withdrawInTime(ctx context.Context, withdraw func(context.Context) error) error {
	cleanupCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return withdraw(cleanupCtx)
}

// requireAcceptedPlan waits for the requested plan of an extension and returns it. It returns an
// error if the plan has a problem that accepted refuses, together with the plan. If the user has
// no permission to read the plan, it only warns: the controller will report the problems.
func (c *PlanCheck) requireAcceptedPlan(ctx context.Context, plan *ExtensionPlan, extension *olmv1.ClusterExtension, accepted func(PlanProblem) bool) (*Plan, error) {
	name := describeExtension(extension.Name)
	plan.Wait = &Wait{Timeout: c.Timeout}
	found, err := plan.awaitPlan(ctx, extension)
	var failed *report.Error
	isReported := errors.As(err, &failed)
	switch {
	case isReported && apierrors.IsForbidden(err):
		report.OrQuiet(plan.Progress).Warn(fmt.Sprintf("%s: not checked first, because you are not allowed to read the plan: %v", name, failed.Err))
		return nil, nil
	case isReported:
		return nil, &report.Error{
			Object: name, Err: fmt.Errorf("nothing was changed, as there is no plan: %w", failed.Err),
			Advice: failed.Advice + "; --check=false goes on without a plan",
		}
	case err != nil:
		return nil, err
	}

	found.Problems = slices.DeleteFunc(found.Problems, accepted)
	if len(found.Problems) == 0 {
		return found, nil
	}

	return found, &report.Error{Object: name, Err: &RefusedPlanError{found.Problems}, Advice: c.adviseOnProblems(ctx, plan.Client, extension, found.Problems)}
}

// RefusedPlanError reports that nothing was changed because the plan has problems.
type RefusedPlanError struct{ Problems []PlanProblem }

// Error implements error. It lists the problems.
func (e *RefusedPlanError) Error() string {
	var b strings.Builder
	b.WriteString("nothing was changed, as the plan is refused:")
	for _, problem := range e.Problems {
		fmt.Fprintf(&b, "\n  - %s: %s", problem.Check, strings.ReplaceAll(strings.TrimSpace(problem.Message), "\n", "\n    "))
	}
	return b.String()
}

// adviseOnProblems returns advice for the first problem. For a bundle that no catalog
// contains, it suggests similar names.
func (c *PlanCheck) adviseOnProblems(ctx context.Context, reader client.Client, extension *olmv1.ClusterExtension, problems []PlanProblem) string {
	first := problems[0]
	if first.Check == "choice" && c.Cluster != nil && extension.Spec.Source.Catalog != nil {
		offered, err := (&catalogContentReader{Client: reader, Cluster: c.Cluster, SystemNamespace: c.SystemNamespace}).readSelectedCatalogs(ctx, extension.Spec.Source.Catalog)
		if err == nil {
			if suggested := suggestCorrection(extension.Spec.Source.Catalog, offered); suggested != "" {
				return suggested
			}
		}
	}

	subject := diagnosis.SubjectOf(extension)
	subject.RollbackCommand = c.rollbackCommand
	return diagnosis.PlanAdvice(subject, first.Message)
}
