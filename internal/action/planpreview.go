package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/objectdiff"
)

// PlanPreview is what an operation would do.
type PlanPreview struct {
	// Plan is the plan of the controller. It is nil if the user may not read it.
	Plan *Plan
	// Refusal is the error by which the operation would refuse the plan. It is nil if it would not.
	Refusal error
}

// newPlanPreview returns the preview for the result of a check.
func newPlanPreview(plan *Plan, err error) (*PlanPreview, error) {
	var refused *RefusedPlanError
	if errors.As(err, &refused) {
		return &PlanPreview{Plan: plan, Refusal: err}, nil
	}
	return &PlanPreview{Plan: plan}, err
}

// Preview returns what Run would do, and leaves everything unchanged. It needs a Check. The
// service account of Account is not part of the plan, because it does not exist yet.
func (a *ExtensionInstall) Preview(ctx context.Context) (preview *PlanPreview, err error) {
	exists, err := a.checkNamespace(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.checkAbsent(ctx); err != nil {
		return nil, err
	}

	planned := *a
	if len(a.Account) > 0 {
		planned.ServiceAccount, planned.Account = "", nil
	}
	plan := &ExtensionPlan{Client: a.Client, Progress: a.Progress, Install: planned, SystemNamespace: a.Check.SystemNamespace}
	extension, withdraw, err := plan.requestPlan(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, withdrawInTime(ctx, withdraw)) }()

	return newPlanPreview(a.Check.requireAcceptedPlan(ctx, plan, extension, func(p PlanProblem) bool {
		return !exists && p.isMissingNamespace() || len(a.Account) > 0 && p.isUnnamedAccount()
	}))
}

// Preview returns what Run would do, and leaves everything unchanged. It needs a Check.
func (a *ExtensionUpgrade) Preview(ctx context.Context) (*PlanPreview, error) {
	if _, err := a.readExtension(ctx); err != nil {
		return nil, err
	}
	return newPlanPreview(a.Check.requirePlanForChoice(ctx, a.Client, a.Progress, a.Name, a.Choice))
}

// Preview returns the revision that Run would roll back to and what Run would do, and leaves
// everything unchanged. It needs a Check.
func (a *ExtensionRollback) Preview(ctx context.Context) (RevisionRecord, *PlanPreview, error) {
	_, target, err := a.findTarget(ctx)
	if err != nil {
		return RevisionRecord{}, nil, err
	}
	preview, err := newPlanPreview(a.planCheck().requirePlanForChoice(ctx, a.Client, a.Progress, a.Name, a.choiceOf(target)))
	return target, preview, err
}

// CheckGeneration returns a conflict if an object has another generation than the one that a
// person decided on. Zero means any.
func CheckGeneration(description string, object client.Object, generation int64) error {
	if generation == 0 || object.GetGeneration() == generation {
		return nil
	}
	conflict := apierrors.NewConflict(schema.GroupResource{}, object.GetName(), fmt.Errorf("it has generation %d, not %d", object.GetGeneration(), generation))
	return &report.Error{
		Object: description, Err: &report.Reworded{Text: "it has been changed meanwhile", Cause: conflict},
		Advice: "look at its current state, and decide again",
	}
}

// PlanDetails is the machine-readable plan of an extension.
type PlanDetails struct {
	// Action is none, install, update, change (the same bundle, other objects) or go back.
	Action    string         `json:"action"`
	Installed *PlannedBundle `json:"installed,omitempty"`
	Bundle    *PlannedBundle `json:"bundle,omitempty"`
	// Why states in sentences why the bundle was chosen.
	Why []string `json:"why,omitempty"`
	// CRDUpgradeSafety is none (there are no CRDs), safe, unsafe, unknown or off.
	CRDUpgradeSafety string `json:"crdUpgradeSafety,omitempty"`
	// Missing are the dependencies that are not met.
	Missing []string `json:"missingDependencies,omitempty"`
	// Created are the extensions that are created for dependencies.
	Created []PlannedExtension `json:"createdExtensions,omitempty"`
	Images  []string           `json:"images,omitempty"`
	// Contents summarizes a first installation. It is nil if something is installed.
	Contents *PlannedContents `json:"contents,omitempty"`
	Objects  *PlannedObjects  `json:"objects,omitempty"`
	Problems []PlanProblem    `json:"problems,omitempty"`
	Note     string           `json:"note,omitempty"`
}

// PlannedBundle is a bundle of a plan.
type PlannedBundle struct {
	Name         string   `json:"name"`
	Version      string   `json:"version"`
	Image        string   `json:"image,omitempty"`
	Catalog      string   `json:"catalog,omitempty"`
	Channels     []string `json:"channels,omitempty"`
	Deprecations []string `json:"deprecations,omitempty"`
}

// PlannedExtension is an extension that a plan creates for a dependency.
type PlannedExtension struct {
	Name    string `json:"name"`
	Package string `json:"package"`
	Version string `json:"version"`
}

// PlannedContents are the objects of a first installation.
type PlannedContents struct {
	// Kinds counts the objects of each kind.
	Kinds map[string]int `json:"kinds"`
	CRDs  []string       `json:"crds,omitempty"`
	// Rights are the rights of the bundle's service accounts.
	Rights []PlannedRights `json:"rights,omitempty"`
}

// PlannedRights are the rights that a binding grants.
type PlannedRights struct {
	// Subjects are the kinds and names that the role is bound to.
	Subjects []string `json:"subjects"`
	// Role is the kind and name of the role.
	Role string `json:"role"`
	// Rules are those of the role. It is empty if the bundle does not contain the role.
	Rules []string `json:"rules,omitempty"`
}

// PlannedObjects are the changes of the objects.
type PlannedObjects struct {
	Added     int                 `json:"added"`
	Changed   int                 `json:"changed"`
	Removed   int                 `json:"removed"`
	Unchanged int                 `json:"unchanged"`
	Changes   []objectdiff.Change `json:"changes,omitempty"`
}

// Details returns the fields of the plan, without the problems that the operation solves.
func (p *Plan) Details() (*PlanDetails, error) {
	details := &PlanDetails{}
	if err := json.Unmarshal(p.Data, details); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	details.Problems = p.Problems
	return details, nil
}
