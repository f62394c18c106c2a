package rollout

import (
	"context"
	"errors"
	"fmt"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// facts are what a pass over a revision depends on.
type facts struct {
	// removal are the facts of the removal of an archived revision. It is nil if the revision is
	// active, or its objects are removed.
	removal *removalFacts

	// writer is the client of the revision's service account.
	writer *impersonation.Client
	// content are the objects of the revision.
	content *apply.Content
	// siblings are the other revisions of the extension.
	siblings []olmv1.ClusterObjectSet
}

// gatherFacts reads what the rollout or the removal of a revision depends on.
func (r *reconciler) gatherFacts(ctx context.Context, set *olmv1.ClusterObjectSet) (facts, error) {
	switch {
	case isInactiveRevision(set) && hasFinishedArchiving(set):
		return facts{}, nil
	case isInactiveRevision(set):
		removal, err := r.gatherRemovalFacts(ctx, set)
		return facts{removal: removal}, err
	}

	if account.ForRevision(set).IsOwn() && r.requireServiceAccount {
		return facts{}, reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the revision names no service account, and this cluster requires one: set the annotations %s and %s",
			olmv1.AnnotationServiceAccountNamespace, olmv1.AnnotationServiceAccountName))
	}

	writer, err := r.revisions.clientFor(ctx, set)
	switch {
	case errors.Is(err, impersonation.ErrMissingAccount):
		return facts{}, reconcile.Wait(olmv1.ReasonRetrying, unwatchedRetryInterval, err)
	case err != nil:
		return facts{}, reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	found, err := r.readRolloutFacts(ctx, set, writer)
	if err != nil {
		return facts{}, reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	return found, nil
}

// readRolloutFacts reads the facts of a rollout with the rights of the revision's account.
func (r *reconciler) readRolloutFacts(ctx context.Context, set *olmv1.ClusterObjectSet, writer *impersonation.Client) (facts, error) {
	if apply.HoldsReferences(set) {
		// The Secrets have the labels of managed objects. They belong to operator-controller.
		own := r.revisions.accounts.Own()
		r.watches.ensureWatch(set.Name, watchKey{scope{namespace: r.revisions.systemNamespace}, secretsResource}, own.Metadata) //nolint:contextcheck // the watch outlives this reconciliation
	}
	content, err := r.revisions.readRevisionContent(ctx, set, writer)
	if err != nil {
		return facts{}, err
	}

	siblings, err := r.revisions.listSiblings(ctx, set)
	if err != nil {
		return facts{}, err
	}
	return facts{writer: writer, content: content, siblings: siblings}, nil
}
