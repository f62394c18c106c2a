package action

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// maxInspectedObjects limits the objects that are inspected together with the objects that
// they own. Each one costs about five requests. Further ones are listed without an
// explanation.
const maxInspectedObjects = 5

// deploymentRevisionAnnotation is the annotation of a Deployment and its ReplicaSets that
// identifies the latest ReplicaSet.
const deploymentRevisionAnnotation = "deployment.kubernetes.io/revision"

// ExtensionExplain explains the state of an extension and what to do.
type ExtensionExplain struct {
	Client client.Client
	Name   string
}

// Run collects the facts and explains them. Missing permissions to read are part of the
// result and no error.
func (a *ExtensionExplain) Run(ctx context.Context) (*diagnosis.Explanation, error) {
	extension, sets, err := readRevisions(ctx, a.Client, a.Name)
	if err != nil {
		return nil, err
	}

	facts := diagnosis.Facts{Extension: extension, Revisions: sets}
	if err := a.collectAwaitedObjects(ctx, &facts); err != nil {
		return nil, NewServerError(describeExtension(a.Name), err)
	}

	if facts.Catalogs, err = a.selectedCatalogs(ctx, extension); apierrors.IsForbidden(err) {
		facts.Unread = append(facts.Unread, "You are not allowed to list the catalogs.")
	} else if err != nil {
		return nil, NewServerError(describeExtension(a.Name), err)
	}

	explanation := diagnosis.Explain(facts)
	return &explanation, nil
}

// selectedCatalogs returns the catalogs that the extension selects.
func (a *ExtensionExplain) selectedCatalogs(ctx context.Context, extension *olmv1.ClusterExtension) ([]olmv1.ClusterCatalog, error) {
	if extension.Spec.Source.Catalog == nil {
		return nil, nil
	}

	var list olmv1.ClusterCatalogList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing catalogs: %w", err)
	}
	return resolve.SelectCatalogs(extension.Spec.Source.Catalog.Selector, list.Items)
}

// collectAwaitedObjects adds the objects of the newest active revision that are not ready.
func (a *ExtensionExplain) collectAwaitedObjects(ctx context.Context, facts *diagnosis.Facts) error {
	state, err := readExtensionState(ctx, a.Client, facts.Extension)
	if err != nil || len(state.Revisions) == 0 {
		return err
	}

	newest := state.Revisions[len(state.Revisions)-1]
	for _, problem := range newest.Problems {
		facts.Unread = append(facts.Unread, fmt.Sprintf("Of revision %s: %s.", newest.Name, problem))
	}

	for _, phase := range newest.Phases {
		if phase.State != report.StateCurrent && phase.State != report.StateFailed {
			continue
		}
		for _, object := range phase.Objects {
			if object.Ready {
				continue
			}
			awaited := diagnosis.AwaitedObject{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name, Message: object.Message}
			if len(facts.Awaited) < maxInspectedObjects {
				if err := a.inspectObject(ctx, object, &awaited, facts); err != nil {
					return err
				}
			}
			facts.Awaited = append(facts.Awaited, awaited)
		}
	}

	return nil
}

// inspectObject reads the ReplicaSets and pods of an object, and the events about all of
// them.
func (a *ExtensionExplain) inspectObject(ctx context.Context, object ObjectState, awaited *diagnosis.AwaitedObject, facts *diagnosis.Facts) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(object.APIVersion, object.Kind))
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: object.Name}, live)
	if err != nil {
		if apierrors.IsNotFound(err) || IsUnknownKind(err) || apierrors.IsForbidden(err) {
			return nil // the message of the object says what it lacks
		}
		return fmt.Errorf("reading %s: %w", describeObject(object), err)
	}

	about := []types.UID{live.GetUID()}
	below, err := a.readOwnedPods(ctx, live, awaited)
	if err == nil {
		awaited.Events, err = a.listObjectEvents(ctx, live.GetNamespace(), append(about, below...))
	}
	if apierrors.IsForbidden(err) {
		facts.Unread = append(facts.Unread, fmt.Sprintf("You are not allowed to read the pods and events below %s.", describeObject(object)))
		return nil
	}

	return err
}

// readOwnedPods adds the ReplicaSets and pods of the latest revision of a workload and
// returns their UIDs. Other kinds have none.
func (a *ExtensionExplain) readOwnedPods(ctx context.Context, live *unstructured.Unstructured, awaited *diagnosis.AwaitedObject) ([]types.UID, error) {
	labels, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	switch live.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet", "Job":
	default:
		return nil, nil
	}

	if len(labels) == 0 {
		return nil, nil
	}

	owners := map[types.UID]bool{live.GetUID(): true}
	var uids []types.UID
	if live.GetKind() == "Deployment" {
		var list appsv1.ReplicaSetList
		if err := a.Client.List(ctx, &list, client.InNamespace(live.GetNamespace()), client.MatchingLabels(labels)); err != nil {
			return nil, fmt.Errorf("listing the ReplicaSets of Deployment %s/%s: %w", live.GetNamespace(), live.GetName(), err)
		}
		owners = map[types.UID]bool{}
		for _, set := range list.Items {
			if metav1.IsControlledBy(&set, live) && set.Annotations[deploymentRevisionAnnotation] == live.GetAnnotations()[deploymentRevisionAnnotation] {
				awaited.ReplicaSets = append(awaited.ReplicaSets, set)
				owners[set.UID] = true
				uids = append(uids, set.UID)
			}
		}
	}

	var pods corev1.PodList
	if err := a.Client.List(ctx, &pods, client.InNamespace(live.GetNamespace()), client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("listing the pods of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}

	for _, pod := range pods.Items {
		if owner := metav1.GetControllerOf(&pod); owner != nil && owners[owner.UID] && pod.DeletionTimestamp.IsZero() {
			awaited.Pods = append(awaited.Pods, pod)
			uids = append(uids, pod.UID)
		}
	}

	return uids, nil
}

// listObjectEvents returns the events about objects. Events about cluster-scoped objects
// are in the namespace default.
func (a *ExtensionExplain) listObjectEvents(ctx context.Context, namespace string, about []types.UID) ([]corev1.Event, error) {
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}

	const enough = 8 // the events of the first pods are representative
	var events []corev1.Event
	for i, uid := range about {
		if i == enough {
			break
		}
		var list corev1.EventList
		if err := a.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": string(uid)}); err != nil {
			return nil, fmt.Errorf("listing events in namespace %q: %w", namespace, err)
		}
		events = append(events, list.Items...)
	}

	return events, nil
}
