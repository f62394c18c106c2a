package action

import (
	"context"
	"errors"
	"fmt"
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

// PlanCheck has an operation look at the plan first, and change nothing when something stands
// against it.
type PlanCheck struct {
	// SystemNamespace is that of operator-controller and catalogd. Empty means
	// DefaultSystemNamespace.
	SystemNamespace string
	// Timeout is how long the plan is waited for. Zero means until the context ends.
	Timeout time.Duration
	// Cluster returns the connection to the cluster, to read its catalogs for suggestions. Nil means
	// that nothing is suggested.
	Cluster func() (*rest.Config, error)
}

// patchChoice applies a choice to an extension on the cluster. When check is not nil, it looks at
// the plan first. It returns the extension before the change, and updates the given one.
func patchChoice(ctx context.Context, c client.Client, progress report.Progress, check *PlanCheck, extension *olmv1.ClusterExtension, choice Choice) (*olmv1.ClusterExtension, error) {
	name := extensionName(extension.Name)
	if !extension.DeletionTimestamp.IsZero() {
		return nil, &report.Error{
			Object: name, Err: errors.New("it is being deleted"),
			Advice: fmt.Sprintf("'mainstay extension status %s' shows what the removal waits for; install it again when it is gone", extension.Name),
		}
	}

	before := extension.DeepCopy()
	if err := choice.apply(&extension.Spec); err != nil {
		return nil, &report.Error{Object: name, Err: err, Advice: "write the selector as kubectl has it: 'key=value,other in (a,b)'"}
	}

	isPlannedOnly := extension.Annotations[olmv1.AnnotationPlan] == olmv1.PlanOnly
	if check != nil && !isPlannedOnly && !equality.Semantic.DeepEqual(before.Spec, extension.Spec) {
		if err := check.checkChoice(ctx, c, progress, extension.Name, choice); err != nil {
			return nil, err
		}
		// The question has changed the extension.
		if err := c.Get(ctx, client.ObjectKeyFromObject(before), extension); err != nil {
			return nil, serverError(name, err)
		}
		before = extension.DeepCopy()
		if err := choice.apply(&extension.Spec); err != nil {
			return nil, &report.Error{Object: name, Err: err}
		}
	}

	// The lock keeps a change made by somebody else in between: lists are replaced as a
	// whole by a merge patch.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, extension, patch); err != nil {
		return nil, serverError(name, err)
	}

	return before, nil
}

// checkChoice plans a choice for an extension that exists, and returns an error when the plan is
// refused.
func (c *PlanCheck) checkChoice(ctx context.Context, reader client.Client, progress report.Progress, name string, choice Choice) (err error) {
	plan := &ExtensionPlan{
		Client: reader, Progress: progress, SystemNamespace: c.SystemNamespace,
		Install: ExtensionInstall{Name: name, Choice: choice},
	}
	extension, tidy, err := plan.ask(ctx)
	if err != nil {
		return err
	}

	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		err = errors.Join(err, tidy(after))
	}()
	if err := choice.apply(&extension.Spec); err != nil {
		return err
	}

	return c.awaitPlan(ctx, plan, extension, func(PlanProblem) bool { return false })
}

// awaitPlan waits for the plan of an extension that asks for one, and returns an error when
// something stands against it that is not accepted. Who may not read the plan is warned, and
// goes on: the controller then reports what the plan would have.
func (c *PlanCheck) awaitPlan(ctx context.Context, plan *ExtensionPlan, extension *olmv1.ClusterExtension, accepted func(PlanProblem) bool) error {
	name := extensionName(extension.Name)
	plan.Wait = &Wait{Timeout: c.Timeout}
	found, err := plan.await(ctx, extension)
	var failed *report.Error
	isReported := errors.As(err, &failed)
	switch {
	case isReported && apierrors.IsForbidden(err):
		report.OrQuiet(plan.Progress).Warn(fmt.Sprintf("%s: not checked first, as you may not read the plan: %v", name, failed.Err))
		return nil
	case isReported:
		return &report.Error{
			Object: name, Err: fmt.Errorf("nothing was changed, as there is no plan: %w", failed.Err),
			Advice: failed.Advice + "; --check=false goes on without a plan",
		}
	case err != nil:
		return err
	}

	var problems []PlanProblem
	for _, problem := range found.Problems {
		if !accepted(problem) {
			problems = append(problems, problem)
		}
	}

	if len(problems) == 0 {
		return nil
	}

	return &report.Error{Object: name, Err: &RefusedPlanError{problems}, Advice: c.adviseOn(ctx, plan.Client, extension, problems)}
}

// RefusedPlanError is a plan with problems, for which nothing was changed.
type RefusedPlanError struct{ Problems []PlanProblem }

// Error lists the problems.
func (e *RefusedPlanError) Error() string {
	var b strings.Builder
	b.WriteString("nothing was changed, as the plan is refused:")
	for _, problem := range e.Problems {
		fmt.Fprintf(&b, "\n  - %s: %s", problem.Check, strings.ReplaceAll(strings.TrimSpace(problem.Message), "\n", "\n    "))
	}
	return b.String()
}

// adviseOn returns what to do about the first problem. For a bundle that no catalog offers, it
// looks for what was meant.
func (c *PlanCheck) adviseOn(ctx context.Context, reader client.Client, extension *olmv1.ClusterExtension, problems []PlanProblem) string {
	first := problems[0]
	if first.Check == "choice" && c.Cluster != nil && extension.Spec.Source.Catalog != nil {
		offered, err := (&catalogOffers{Client: reader, Cluster: c.Cluster, SystemNamespace: c.SystemNamespace}).read(ctx, extension.Spec.Source.Catalog)
		if err == nil {
			if suggested := suggest(extension.Spec.Source.Catalog, offered); suggested != "" {
				return suggested
			}
		}
	}

	return diagnosis.PlanAdvice(diagnosis.SubjectOf(extension), first.Message)
}
