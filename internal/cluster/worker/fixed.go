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

// fieldRole is the role of a binding, which stays as long as the binding.
const fieldRole = "roleRef"

// fixedField returns the field that an API server refused to change because it is what it is
// as long as the object lives. It gives nothing for any other answer.
func fixedField(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}

	for _, cause := range status.Status().Details.Causes {
		if strings.HasSuffix(cause.Message, "field is immutable") || cause.Field == fieldRole {
			return cause.Field
		}
	}
	return ""
}

// remake makes a binding anew whose role is another one in the release: nothing is lost by
// that but a moment in which nobody has the rights. What else cannot be changed is more than
// its manifest, such as the work that a Job has done, so that a person has to delete it.
func (p *pass) remake(ctx context.Context, it *item, live, merged *unstructured.Unstructured, field string, refused error) (*unstructured.Unstructured, error) {
	if field != fieldRole || !p.owns(live) || bindsOperator(live) || bindsOperator(merged) {
		return nil, fault{&fixed{field, refused}}
	}

	next := merged.DeepCopy()
	metadata, _ := merged.Object["metadata"].(map[string]any)
	next.Object["metadata"] = only(metadata, statedMetadata)
	// Nothing is deleted that may not be made again, for whatever reason.
	like := next.DeepCopy()
	like.SetName("")
	like.SetGenerateName(next.GetName() + "-")
	if err := p.worker.client.Create(ctx, like, client.FieldOwner(fieldManager), client.DryRunAll); err != nil {
		return nil, err
	}

	precondition := client.Preconditions{UID: ptr.To(live.GetUID()), ResourceVersion: ptr.To(live.GetResourceVersion())}
	if err := p.worker.client.Delete(ctx, live, precondition); err != nil {
		return nil, err
	}

	created, err := p.create(ctx, it, next)
	if err == nil {
		log.FromContext(ctx).Info("made a binding anew, as its role is another one", "kind", it.key.Kind, "namespace", it.key.Namespace, "name", it.key.Name)
	}

	return created, err
}

// owns reports whether an object belongs to the ClusterVersion.
func (p *pass) owns(live *unstructured.Unstructured) bool {
	owner := p.job.work.Owner.UID
	return owner != "" && slices.ContainsFunc(live.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == owner })
}

// bindsOperator reports whether a binding gives rights to this program: without it the program
// could not make it again.
func bindsOperator(binding *unstructured.Unstructured) bool {
	subjects, _ := binding.Object["subjects"].([]any)
	return slices.ContainsFunc(subjects, func(subject any) bool {
		s, _ := subject.(map[string]any)
		name, _ := s["name"].(string)
		return s["namespace"] == ownNamespace || strings.HasPrefix(name, "system:serviceaccount") || name == "system:authenticated"
	})
}

// fixed says that a field cannot be changed, and what to do.
type fixed struct {
	field string
	err   error
}

func (f *fixed) Error() string {
	return fmt.Sprintf("%s cannot be changed while the object exists: delete the object, which is then made anew, or give it another name in the release", f.field)
}

func (f *fixed) Unwrap() error { return f.err }
