package apply

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrMissingAccount is that there is no account to write objects as. It begins as the
// message that users and scripts know.
var ErrMissingAccount = errors.New("installation cannot proceed due to missing ServiceAccount")

// CheckAccount makes sure that the ServiceAccount exists that objects are to be written as:
// the API server would impersonate one that does not, and rights may still be bound to its
// name. The error is an ErrMissingAccount, or says why it could not be looked for.
func CheckAccount(ctx context.Context, reader client.Reader, account types.NamespacedName) error {
	var found metav1.PartialObjectMetadata
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := reader.Get(ctx, account, &found)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: create ServiceAccount %q in namespace %q", ErrMissingAccount, account.Name, account.Namespace)
	}
	if err != nil {
		return fmt.Errorf("looking for ServiceAccount %q: %w", account, err)
	}

	return nil
}
