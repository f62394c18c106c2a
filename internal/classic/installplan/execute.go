package installplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/selfgrant"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
)

// errInvalidPlan is the error for a plan with a step that cannot be executed.
var errInvalidPlan = errors.New("the InstallPlan contains invalid data")

// executor executes the steps of InstallPlans.
type executor struct {
	// accounts are the clients of service accounts. They collect warnings.
	accounts *impersonation.Clients
	grants   *selfgrant.Granter
	events   events.EventRecorder
	// cached reads Subscriptions, and crds crdinfo.Definitions, from caches.
	cached, crds client.Reader
	// namespace is the namespace from which pull secrets are copied.
	namespace string
	// trust states where the content of bundles may be read from.
	trust unpack.Trust
}

// execution executes the steps of a plan in one reconcile.
type execution struct {
	*executor
	plan *v1alpha1.InstallPlan
	// groups are the OperatorGroups of the namespace.
	groups []operatorsv1.OperatorGroup
	// own has the rights of the controller, scoped those of the plan's service account.
	own, scoped client.Client
	crds        *crdWriter
	// unpacked caches the steps of unpacked bundles by their references.
	unpacked map[steps.Reference][]*v1alpha1.Step
	// created are the UIDs of the ClusterServiceVersions that this execution has created. Objects that refer to one
	// which is deleted meanwhile are deleted with it.
	created map[string]types.UID
	// components are the labels of the objects of each ClusterServiceVersion, by its name.
	components map[string]map[string]string
}

// executeSteps executes the steps of a plan that are not done, until one fails. It sets their status.
func (e *executor) executeSteps(ctx context.Context, plan *v1alpha1.InstallPlan, groups []operatorsv1.OperatorGroup) error {
	own := e.accounts.Own()
	scoped, err := e.accounts.For(ctx, impersonation.AccountOf(plan.Status.AttenuatedServiceAccountRef))
	if err != nil {
		return err
	}

	var subs v1alpha1.SubscriptionList
	if err := e.cached.List(ctx, &subs, client.InNamespace(plan.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the Subscriptions of namespace %s: %w", plan.Namespace, err)
	}

	notices := planEvents{recorder: e.events, plan: plan}
	x := &execution{
		executor: e, plan: plan, groups: groups, own: own, scoped: scoped, unpacked: map[steps.Reference][]*v1alpha1.Step{}, created: map[string]types.UID{},
		components: listComponentLabels(plan, subs.Items),
		crds:       &crdWriter{client: own, cached: e.crds, grants: e.grants, events: notices, namespace: plan.Namespace},
	}

	// Most of the CRDs that the first round creates are served before the second one, which checks only these.
	for range 2 {
		for i, step := range plan.Status.Plan {
			if step == nil || isStepDone(step) {
				continue
			}

			ctx, collected := collectWarnings(ctx)
			err := x.executeStep(ctx, step)
			notices.emitWarnings(i, step, collected.list())
			if err != nil {
				return x.addMissingRights(ctx, err, plan.Status.Plan[i+1:])
			}
		}
	}

	return nil
}

// executeStep executes one step and sets its status.
func (x *execution) executeStep(ctx context.Context, step *v1alpha1.Step) error {
	handling, ok := kinds[step.Resource.Kind]
	if !ok {
		step.Status = v1alpha1.StepStatusUnsupportedResource
		return errInvalidPlan
	}
	if step.Resource.Kind == kindSecret {
		return x.copyPullSecret(ctx, step)
	}

	object, err := x.decodeObject(ctx, step)
	if err != nil {
		return err
	}
	if step.Resource.Kind == kindCRD {
		return x.crds.ensureCRD(ctx, step, object)
	}

	if step.Resource.Kind == v1alpha1.ClusterServiceVersionKind {
		if err := x.checkCRDOwners(ctx, step, object); err != nil {
			return err
		}
		completeCSVMetadata(object, x.groups)
	}

	if err := x.setOwner(ctx, step, handling, object); err != nil {
		return err
	}

	if step.Status, err = x.createOrUpdate(ctx, handling, object); err != nil {
		return err
	}
	if effect := disruptionOf(object); effect != "" {
		at := slices.Index(x.plan.Status.Plan, step)
		x.crds.events.emitWarningEvent(fmt.Sprintf("status.plan[%d]", at), "DisruptiveObject", fmt.Sprintf("%s %s: %s", object.GetKind(), object.GetName(), effect))
	}
	return nil
}

// decodeObject returns the object of a step. A namespaced object is in the namespace of the plan.
func (x *execution) decodeObject(ctx context.Context, step *v1alpha1.Step) (*unstructured.Unstructured, error) {
	manifest, err := x.readManifest(ctx, step)
	if err != nil {
		return nil, err
	}

	object, err := decodeManifest(step, manifest)
	if err != nil {
		return nil, err
	}

	kind := object.GroupVersionKind()
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
	object.SetLabels(csvinfo.MergeLabels(object.GetLabels(), x.components[step.Resolving], map[string]string{csvinfo.LabelManaged: "true"}))

	return object, nil
}

// readManifest returns the manifest of a step. If the step has a reference instead, it reads the unpacked bundle.
func (x *execution) readManifest(ctx context.Context, step *v1alpha1.Step) (string, error) {
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

// setOwner sets the owner labels or the owner reference of the ClusterServiceVersion on an object of its bundle. It
// returns an error if the ClusterServiceVersion does not exist, or if a cluster-scoped object would outlive it.
func (x *execution) setOwner(ctx context.Context, step *v1alpha1.Step, handling handling, object *unstructured.Unstructured) error {
	if err := x.fillOwnerUIDs(ctx, object); err != nil {
		return err
	}

	if !handling.owned || step.Resolving == "" {
		return nil
	}

	if object.GetNamespace() == "" {
		csv, err := getCSVMetadata(ctx, x.own, x.plan.Namespace, step.Resolving)
		if err != nil {
			return fmt.Errorf("the owner of %s %s: %w", strings.ToLower(object.GetKind()), object.GetName(), err)
		}
		if !csvinfo.HasCleanup(csv) {
			return fmt.Errorf("the owner of %s %s: ClusterServiceVersion %s/%s is being deleted or has no finalizer yet",
				strings.ToLower(object.GetKind()), object.GetName(), csv.Namespace, csv.Name)
		}
		object.SetLabels(csvinfo.MergeLabels(object.GetLabels(), csvinfo.OwnerLabels(csv.Namespace, csv.Name)))
		return nil
	}

	uid, err := x.readCSVUID(ctx, step.Resolving)
	if err != nil {
		return fmt.Errorf("the owner of %s %s: %w", strings.ToLower(object.GetKind()), object.GetName(), err)
	}

	owner := csvinfo.OwnerReference(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: step.Resolving, UID: uid}})
	object.SetOwnerReferences(mergeOwnerReferences(object.GetOwnerReferences(), []metav1.OwnerReference{owner}))
	return nil
}

// fillOwnerUIDs sets the UIDs in owner references to ClusterServiceVersions. They are not known when the step is
// created.
func (x *execution) fillOwnerUIDs(ctx context.Context, object *unstructured.Unstructured) error {
	owners := object.GetOwnerReferences()
	for i := range owners {
		if owners[i].Kind != v1alpha1.ClusterServiceVersionKind {
			continue
		}
		uid, err := x.readCSVUID(ctx, owners[i].Name)
		if err != nil {
			return fmt.Errorf("the owner of %s %s: %w", strings.ToLower(object.GetKind()), object.GetName(), err)
		}
		owners[i].UID = uid
	}

	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
	return nil
}

// readCSVUID returns the UID of a ClusterServiceVersion in the namespace of the plan.
func (x *execution) readCSVUID(ctx context.Context, name string) (types.UID, error) {
	if uid, ok := x.created[name]; ok {
		return uid, nil
	}
	csv, err := getCSVMetadata(ctx, x.own, x.plan.Namespace, name)
	if err != nil {
		return "", err
	}
	return csv.UID, nil
}

// getCSVMetadata returns the metadata of a ClusterServiceVersion.
func getCSVMetadata(ctx context.Context, c client.Reader, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	csv := &metav1.PartialObjectMetadata{}
	csv.SetGroupVersionKind(csvKind)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, csv); err != nil {
		return nil, fmt.Errorf("reading ClusterServiceVersion %s/%s: %w", namespace, name, err)
	}
	return csv, nil
}

var csvKind = v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind)
