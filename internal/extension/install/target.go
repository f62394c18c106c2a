package install

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

func isMissingAccount(err error) bool { return errors.Is(err, impersonation.ErrMissingAccount) }

// checkNamespaceAndAccount returns an error if the namespace or the service account of the extension does not
// exist. Nothing can be written without them.
func checkNamespaceAndAccount(ctx context.Context, reader client.Reader, ext *olmv1.ClusterExtension, requireServiceAccount bool) error {
	var namespace metav1.PartialObjectMetadata
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := reader.Get(ctx, client.ObjectKey{Name: ext.Spec.Namespace}, &namespace); err != nil {
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading namespace %q: %w", ext.Spec.Namespace, err)
		}
		return reconcile.Wait(olmv1.ReasonRetrying, preconditionRetryInterval, fmt.Errorf(
			"namespace %q does not exist: create it, the extension's namespaced objects go there", ext.Spec.Namespace))
	}

	name := serviceAccountName(ext)
	if name == "" {
		if requireServiceAccount {
			return reconcile.Stop(olmv1.ReasonBlocked, errors.New(
				"spec.serviceAccount is not set, and this cluster requires it: name a ServiceAccount that has the rights the extension needs"))
		}
		return nil
	}

	err := impersonation.CheckAccount(ctx, reader, impersonation.Account{Namespace: ext.Spec.Namespace, Name: name})
	if isMissingAccount(err) {
		return reconcile.Wait(olmv1.ReasonRetrying, preconditionRetryInterval, err)
	}

	return err
}
