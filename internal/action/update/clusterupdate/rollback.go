package clusterupdate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Rollback rolls the cluster back to its previous release.
type Rollback struct {
	// Client is the client of the cluster.
	Client client.Client
	// Preview returns the plan without writing anything.
	Preview bool
}

// RollbackPlan describes a rollback.
type RollbackPlan struct {
	// From is the current version. To is the previous one.
	From string `json:"from"`
	To   string `json:"to"`
	// Image is the pull spec of the previous release.
	Image string `json:"image"`
	// Completed reports whether the update to the previous release completed.
	Completed bool `json:"completed"`
	// Refusal is the reason why the cluster cannot be rolled back. It is empty if it can.
	Refusal string `json:"refusal,omitempty"`
}

// Run plans the rollback and requests it unless Preview is set. It returns an error if the
// rollback is refused and not a preview.
func (a *Rollback) Run(ctx context.Context) (*RollbackPlan, error) {
	cv, err := Read(ctx, a.Client)
	if err != nil {
		return nil, err
	}

	plan := planRollback(cv)
	if a.Preview {
		return plan, nil
	}
	if plan.Refusal != "" {
		return nil, &report.Error{Object: clusterVersionObject, Err: errors.New(plan.Refusal), Advice: "'mainstay cluster history' lists the releases that the cluster has had"}
	}

	return plan, patchSpec(ctx, a.Client, cv, desiredUpdatePatch(&configv1.Update{Version: plan.To, Image: plan.Image, AcceptRisks: acceptedRisks(cv)}))
}

// planRollback returns the plan for a rollback to the previous release. It refuses a
// release that is not a lower patch version of the same minor version, and any rollback
// while an update is in progress.
func planRollback(cv *configv1.ClusterVersion) *RollbackPlan {
	at := cv.Status.Desired
	plan := &RollbackPlan{From: at.Version}
	refuse := func(format string, args ...any) *RollbackPlan {
		plan.Refusal = fmt.Sprintf(format, args...)
		return plan
	}
	i := slices.IndexFunc(cv.Status.History, func(entry configv1.UpdateHistory) bool {
		return entry.Version != at.Version || entry.Image != at.Image
	})
	if i < 0 {
		return refuse("no previous version found in the history of the cluster")
	}

	previous := cv.Status.History[i]
	plan.To, plan.Image, plan.Completed = previous.Version, previous.Image, previous.State == configv1.CompletedUpdate
	current, err := semver.Parse(at.Version)
	if err != nil {
		return refuse("the current version %q is not a semantic version: %v", at.Version, err)
	}

	target, err := semver.Parse(previous.Version)
	if err != nil {
		return refuse("the previous version %q is not a semantic version: %v", previous.Version, err)
	}

	switch {
	case target.GTE(current):
		return refuse("the previous version %s is not less than the current version %s", target, current)
	case target.Major != current.Major || target.Minor != current.Minor:
		return refuse("%s is not of the same minor version as %s: only rollbacks between patches of a minor version are supported", target, current)
	}

	if f := findCondition(cv, configv1.OperatorProgressing); f == nil || f.status != "False" {
		text := "the state of the cluster is not known"
		if f != nil {
			text = f.message
		}
		return refuse("unable to roll back while an update is in progress: %s", text)
	}

	return plan
}
