package installplan

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
)

// errInvalidPlan says that a plan has a step which cannot be executed.
var errInvalidPlan = errors.New("the InstallPlan contains invalid data")

// maxNote is how long the text of an event may be.
const maxNote = 1024

// executor executes the steps of plans.
type executor struct {
	clients *clients
	events  events.EventRecorder
	// namespace is where Secrets with logins of registries are copied from.
	namespace string
	// trust says where the content of bundles is read from.
	trust unpack.Trust
}

// execution is one pass over the steps of a plan.
type execution struct {
	*executor
	plan *v1alpha1.InstallPlan
	// own has the rights of the controller, scoped those of the account of the plan.
	own, scoped client.Client
	// unpacked are the steps of bundles that were unpacked, by what refers to them.
	unpacked map[steps.Reference][]*v1alpha1.Step
}

// steps executes the steps of a plan that are not done, until one fails.
func (e *executor) steps(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	x := &execution{executor: e, plan: plan, unpacked: map[steps.Reference][]*v1alpha1.Step{}}
	var err error
	if x.own, err = e.clients.of(ctx, nil); err != nil {
		return err
	}
	if x.scoped, err = e.clients.of(ctx, plan.Status.AttenuatedServiceAccountRef); err != nil {
		return err
	}

	for i, step := range plan.Status.Plan {
		if step == nil || isDone(step) {
			continue
		}

		ctx, said := keep(ctx)
		err := x.step(ctx, step)
		x.tell(i, step, said.all())
		if err != nil {
			return err
		}
	}

	return nil
}

// tell has an event say what the API server warned of.
func (x *execution) tell(at int, step *v1alpha1.Step, said []string) {
	if len(said) == 0 {
		return
	}

	warningsTotal.Inc()
	what := "operator installation"
	if step.Resolving != "" {
		what = fmt.Sprintf("installation of operator %q", step.Resolving)
	}

	x.event(fmt.Sprintf("status.plan[%d]", at), "AppliedWithWarnings", fmt.Sprintf("%d warning(s) generated during %s (%s %q): %s",
		len(said), what, step.Resource.Kind, step.Resource.Name, strings.Join(said, ", ")))
}

// event has an event be about a field of the plan.
func (x *execution) event(field, reason, note string) {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "")
	}
	x.events.Eventf(&corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.InstallPlanKind, Namespace: x.plan.Namespace, Name: x.plan.Name,
		UID: x.plan.UID, ResourceVersion: x.plan.ResourceVersion, FieldPath: field,
	}, nil, corev1.EventTypeWarning, reason, "Install", "%s", note)
}

// step executes one step and notes how far it is.
func (x *execution) step(ctx context.Context, step *v1alpha1.Step) error {
	handling, ok := kinds[step.Resource.Kind]
	if !ok {
		step.Status = v1alpha1.StepStatusUnsupportedResource
		return errInvalidPlan
	}
	if step.Resource.Kind == kindSecret {
		return x.copySecret(ctx, step)
	}

	object, err := x.object(ctx, step)
	if err != nil {
		return err
	}
	if step.Resource.Kind == kindCRD {
		return x.definition(ctx, step, object)
	}

	if step.Resource.Kind == v1alpha1.ClusterServiceVersionKind {
		if err := x.checkOwners(ctx, step, object); err != nil {
			return err
		}
	}

	if err := x.mark(ctx, step, handling, object); err != nil {
		return err
	}

	step.Status, err = x.put(ctx, handling, object)
	return err
}

// object is the manifest of a step, in the namespace of the plan if its kind has one.
func (x *execution) object(ctx context.Context, step *v1alpha1.Step) (*unstructured.Unstructured, error) {
	manifest, err := x.manifest(ctx, step)
	if err != nil {
		return nil, err
	}

	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(manifest)); err != nil {
		return nil, fmt.Errorf("the manifest of %s %s cannot be read: %w", step.Resource.Kind, step.Resource.Name, err)
	}
	if object.GetName() != step.Resource.Name {
		return nil, fmt.Errorf("the manifest of %s %s is one of %q: %w", step.Resource.Kind, step.Resource.Name, object.GetName(), errInvalidPlan)
	}

	kind := object.GroupVersionKind()
	if wanted := step.Resource.Kind; kind.Kind != wanted && (wanted != v1alpha1.KindBundleSecret || kind.Kind != kindSecret) {
		return nil, fmt.Errorf("the manifest of %s %s is one of kind %q: %w", wanted, step.Resource.Name, kind.Kind, errInvalidPlan)
	}

	mapping, err := x.own.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("api-server resource not found installing %s %s: GroupVersionKind %s not found on the cluster. %s", kind.Kind, object.GetName(), kind,
			"This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information.")
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the API of %s: %w", kind, err)
	}

	object.SetNamespace("")
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		object.SetNamespace(x.plan.Namespace)
	}

	delete(object.Object, "status")
	object.SetUID("")
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	object.SetLabels(csvinfo.With(object.GetLabels(), map[string]string{csvinfo.LabelManaged: "true"}))

	return object, nil
}

// manifest is that of a step, or that which a reference in its place leads to.
func (x *execution) manifest(ctx context.Context, step *v1alpha1.Step) (string, error) {
	ref, ok := steps.ReferenceOf(step)
	if !ok {
		return step.Resource.Manifest, nil
	}

	among, ok := x.unpacked[ref]
	if !ok {
		var err error
		if among, err = unpack.StepsOf(ctx, x.own, x.trust, x.plan.Namespace, ref); err != nil {
			return "", err
		}
		x.unpacked[ref] = among
	}

	return steps.Manifest(step, among)
}

// mark puts the marks of the ClusterServiceVersion on an object that goes with it.
func (x *execution) mark(ctx context.Context, step *v1alpha1.Step, handling handling, object *unstructured.Unstructured) error {
	if err := x.fillOwners(ctx, object); err != nil {
		return err
	}

	switch {
	case !handling.owned || step.Resolving == "":
		return nil
	case object.GetNamespace() == "":
		object.SetLabels(csvinfo.With(object.GetLabels(), csvinfo.OwnerLabels(x.plan.Namespace, step.Resolving)))
		return nil
	}

	csv, err := x.csv(ctx, step.Resolving)
	if err != nil {
		return fmt.Errorf("the owner of %s %s: %w", strings.ToLower(object.GetKind()), object.GetName(), err)
	}

	owner := csvinfo.OwnerReference(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: csv.Name, UID: csv.UID}})
	object.SetOwnerReferences(mergeOwners(object.GetOwnerReferences(), []metav1.OwnerReference{owner}))
	return nil
}

// fillOwners puts the UIDs of ClusterServiceVersions into the references to them. Whoever made the step
// could not know them.
func (x *execution) fillOwners(ctx context.Context, object *unstructured.Unstructured) error {
	owners := object.GetOwnerReferences()
	for i := range owners {
		if owners[i].Kind != v1alpha1.ClusterServiceVersionKind {
			continue
		}
		csv, err := x.csv(ctx, owners[i].Name)
		if err != nil {
			return fmt.Errorf("the owner of %s %s: %w", strings.ToLower(object.GetKind()), object.GetName(), err)
		}
		owners[i].UID = csv.UID
	}

	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
	return nil
}

// csv returns the metadata of a ClusterServiceVersion of the plan's namespace.
func (x *execution) csv(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	csv := &metav1.PartialObjectMetadata{}
	csv.SetGroupVersionKind(csvKind)
	if err := x.own.Get(ctx, client.ObjectKey{Namespace: x.plan.Namespace, Name: name}, csv); err != nil {
		return nil, fmt.Errorf("reading ClusterServiceVersion %s/%s: %w", x.plan.Namespace, name, err)
	}
	return csv, nil
}

var csvKind = v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind)
