package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// roleRefField is the immutable role of a binding.
const roleRefField = "roleRef"

// immutableField returns the field that the API server refused to change because it is
// immutable. It returns "" for any other error.
func immutableField(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}

	for _, cause := range status.Status().Details.Causes {
		if strings.HasSuffix(cause.Message, "field is immutable") || cause.Field == roleRefField {
			return cause.Field
		}
	}
	return ""
}

// recreateBinding deletes and creates a binding whose role changed in the release. Only the
// permissions are missing for a moment. It returns an error for any other immutable field: the
// object, such as a Job, has more state than its manifest, so that an administrator has to
// delete it.
func (a *objectApplier) recreateBinding(ctx context.Context, it *item, live, merged *unstructured.Unstructured, field string, refused error) (*unstructured.Unstructured, error) {
	if field != roleRefField || !a.isOwnedByClusterVersion(live) || bindsOwnServiceAccount(live) || bindsOwnServiceAccount(merged) {
		return nil, manifestError{&immutableFieldError{field, refused}}
	}

	next := merged.DeepCopy()
	metadata, _ := merged.Object["metadata"].(map[string]any)
	next.Object["metadata"] = selectFields(metadata, desiredMetadataFields)
	// A dry run checks that the object can be created again before it is deleted.
	like := next.DeepCopy()
	like.SetName("")
	like.SetGenerateName(next.GetName() + "-")
	if err := a.client.Create(ctx, like, client.FieldOwner(fieldManager), client.DryRunAll); err != nil {
		return nil, err
	}

	precondition := client.Preconditions{UID: ptr.To(live.GetUID()), ResourceVersion: ptr.To(live.GetResourceVersion())}
	if err := a.client.Delete(ctx, live, precondition); err != nil {
		return nil, err
	}

	created, err := a.createObject(ctx, it, next)
	if err == nil {
		log.FromContext(ctx).Info("recreated a binding because its role changed", "kind", it.key.Kind, "namespace", it.key.Namespace, "name", it.key.Name)
	}

	return created, err
}

// isOwnedByClusterVersion reports whether an object is owned by the ClusterVersion.
func (a *objectApplier) isOwnedByClusterVersion(live *unstructured.Unstructured) bool {
	owner := a.owner.UID
	return owner != "" && slices.ContainsFunc(live.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == owner })
}

// bindsOwnServiceAccount reports whether a binding may grant permissions to this program.
// Without these permissions the program could not create the binding again.
func bindsOwnServiceAccount(binding *unstructured.Unstructured) bool {
	subjects, _ := binding.Object["subjects"].([]any)
	return slices.ContainsFunc(subjects, func(subject any) bool {
		s, _ := subject.(map[string]any)
		name, _ := s["name"].(string)
		return s["namespace"] == operatorNamespace || strings.HasPrefix(name, "system:serviceaccount") || name == "system:authenticated"
	})
}

// immutableFieldError states that a field is immutable, and how to proceed.
type immutableFieldError struct {
	field string
	err   error
}

func (f *immutableFieldError) Error() string {
	return fmt.Sprintf("%s cannot be changed while the object exists: delete the object so that it is created again, or give it another name in the release", f.field)
}

func (f *immutableFieldError) Unwrap() error { return f.err }
