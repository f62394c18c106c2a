// Package account provides the clients that read, watch and write the objects of a revision: with the rights of the
// service account that the revision names, or with those of operator-controller itself.
package account

import (
	"context"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
)

// NewClients returns the clients of accounts. The warnings of the API server are dropped: the same ones would be
// logged in every reconciliation.
func NewClients(mgr ctrl.Manager) (*impersonation.Clients, error) {
	return impersonation.NewClients(mgr, impersonation.Options{Warnings: rest.NoWarnings{}})
}

// ForRevision returns the service account that a revision names, which writes the objects of the revision. If the
// revision names none, it is operator-controller's own account.
func ForRevision(set *olmv1.ClusterObjectSet) impersonation.Account {
	return impersonation.Account{
		Namespace: set.Annotations[olmv1.AnnotationServiceAccountNamespace],
		Name:      set.Annotations[olmv1.AnnotationServiceAccountName],
	}
}

// ContentReader reads the Secrets that hold the objects of a revision. In the system namespace,
// where operator-controller stores them, it uses operator-controller's rights. In other namespaces
// it uses the rights of the revision's account. So a revision cannot disclose Secrets that its
// account may not read.
type ContentReader struct {
	// Reader has the rights of the account.
	client.Reader
	// Own has the rights of operator-controller.
	Own client.Reader
	// SystemNamespace is the namespace of operator-controller.
	SystemNamespace string
}

// Get reads one object.
func (r *ContentReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if key.Namespace == r.SystemNamespace {
		return r.Own.Get(ctx, key, object, options...)
	}
	return r.Reader.Get(ctx, key, object, options...)
}
