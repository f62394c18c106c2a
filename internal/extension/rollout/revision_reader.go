package rollout

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
)

// revisionReader reads revisions, their objects and their accounts.
type revisionReader struct {
	// client reads from the cache.
	client client.Reader
	// reader reads from the API server, for kinds that are not worth a cache.
	reader   client.Reader
	accounts *impersonation.Clients
	// systemNamespace is the namespace of Secrets whose references name none.
	systemNamespace string
}

// mapToSiblings is the map function of revisions. It returns requests for the other active
// revisions of the same extension.
func (r *revisionReader) mapToSiblings(ctx context.Context, obj client.Object) []ctrl.Request {
	set, ok := obj.(*olmv1.ClusterObjectSet)
	if !ok {
		return nil
	}

	siblings, err := r.listSiblings(ctx, set)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the revisions to enqueue")
		return nil
	}

	var requests []ctrl.Request
	for i := range siblings {
		if !isInactiveRevision(&siblings[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&siblings[i])})
		}
	}

	return requests
}

// listSiblings lists the other revisions of the same extension. A set without owner labels has
// none.
func (r *revisionReader) listSiblings(ctx context.Context, set *olmv1.ClusterObjectSet) ([]olmv1.ClusterObjectSet, error) {
	labels := ownerLabels(set)
	if len(labels) == 0 {
		return nil, nil
	}

	var list olmv1.ClusterObjectSetList
	if err := r.client.List(ctx, &list, client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("listing the revisions of %q: %w", labels[olmv1.LabelOwnerName], err)
	}

	siblings := list.Items[:0]
	for _, item := range list.Items {
		if item.UID != set.UID {
			siblings = append(siblings, item)
		}
	}

	return siblings, nil
}

// readRevisionContent reads the objects of a revision with the rights of an account.
func (r *revisionReader) readRevisionContent(ctx context.Context, set *olmv1.ClusterObjectSet, as *impersonation.Client) (*apply.Content, error) {
	return apply.Load(ctx, &account.ContentReader{Reader: as, Own: r.reader, SystemNamespace: r.systemNamespace}, set, r.systemNamespace)
}

// secretsResource is the resource that holds the objects of large revisions.
var secretsResource = corev1.SchemeGroupVersion.WithResource("secrets")

// clientFor returns the client of the account that a revision names. The error wraps
// impersonation.ErrMissingAccount if the account does not exist.
func (r *revisionReader) clientFor(ctx context.Context, set *olmv1.ClusterObjectSet) (*impersonation.Client, error) {
	as := account.ForRevision(set)
	if (as.Name == "") != (as.Namespace == "") {
		return nil, fmt.Errorf("%w: the revision's annotations %s and %s must both be set, or neither",
			impersonation.ErrMissingAccount, olmv1.AnnotationServiceAccountName, olmv1.AnnotationServiceAccountNamespace)
	}
	return r.accounts.For(ctx, as)
}

// clientForRemoval returns the client of the account that a revision names, or of operator-controller
// if this account does not exist: it may be deleted before the extension.
func (r *revisionReader) clientForRemoval(ctx context.Context, set *olmv1.ClusterObjectSet) (*impersonation.Client, error) {
	as, err := r.clientFor(ctx, set)
	if errors.Is(err, impersonation.ErrMissingAccount) {
		return r.accounts.Own(), nil
	}
	return as, err
}
