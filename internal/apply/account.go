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

// ErrMissingAccount is the error for a service account that does not exist. Users and scripts
// match the start of its message.
var ErrMissingAccount = errors.New("installation cannot proceed due to missing ServiceAccount")

// CheckAccount returns an error if the service account that writes objects does not exist. The API
// server would impersonate it all the same, and rights may still be bound to its name. The error
// wraps ErrMissingAccount, unless the account could not be read.
func CheckAccount(ctx context.Context, reader client.Reader, account types.NamespacedName) error {
	var found metav1.PartialObjectMetadata
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := reader.Get(ctx, account, &found)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: create ServiceAccount %q in namespace %q", ErrMissingAccount, account.Name, account.Namespace)
	}
	if err != nil {
		return fmt.Errorf("reading ServiceAccount %q: %w", account, err)
	}

	return nil
}
