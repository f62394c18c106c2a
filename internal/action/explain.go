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

// maxLookedInto is how many objects that are not ready are looked into, with what stands
// below them: more are named and not explained. Each costs some five requests.
const maxLookedInto = 5

// deploymentRevision is the annotation by which a Deployment and its ReplicaSets say which
// of these is the latest.
const deploymentRevision = "deployment.kubernetes.io/revision"

// ExtensionExplain tells why an extension is as it is, and what to do.
type ExtensionExplain struct {
	Client client.Client
	Name   string
}

// Run gathers the facts and explains them. What the person may not read is said, and is no
// error.
func (a *ExtensionExplain) Run(ctx context.Context) (*diagnosis.Explanation, error) {
	extension, sets, err := readRevisions(ctx, a.Client, a.Name)
	if err != nil {
		return nil, err
	}

	facts := diagnosis.Facts{Extension: extension, Revisions: sets}
	if err := a.awaited(ctx, &facts); err != nil {
		return nil, serverError(extensionName(a.Name), err)
	}

	if facts.Catalogs, err = a.catalogs(ctx, extension); apierrors.IsForbidden(err) {
		facts.Unread = append(facts.Unread, "You may not list the catalogs.")
	} else if err != nil {
		return nil, serverError(extensionName(a.Name), err)
	}

	explanation := diagnosis.Explain(facts)
	return &explanation, nil
}

// catalogs are those that the extension selects.
func (a *ExtensionExplain) catalogs(ctx context.Context, extension *olmv1.ClusterExtension) ([]olmv1.ClusterCatalog, error) {
	if extension.Spec.Source.Catalog == nil {
		return nil, nil
	}

	var list olmv1.ClusterCatalogList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing catalogs: %w", err)
	}
	return resolve.SelectCatalogs(extension.Spec.Source.Catalog.Selector, list.Items)
}

// awaited looks at the objects of the newest active revision that are not ready.
func (a *ExtensionExplain) awaited(ctx context.Context, facts *diagnosis.Facts) error {
	state, err := extensionState(ctx, a.Client, facts.Extension)
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
			awaited := diagnosis.Awaited{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name, Message: object.Message}
			if len(facts.Awaited) < maxLookedInto {
				if err := a.lookInto(ctx, object, &awaited, facts); err != nil {
					return err
				}
			}
			facts.Awaited = append(facts.Awaited, awaited)
		}
	}

	return nil
}

// lookInto reads what stands below an object, and the events about all of it.
func (a *ExtensionExplain) lookInto(ctx context.Context, object ObjectState, awaited *diagnosis.Awaited, facts *diagnosis.Facts) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(object.APIVersion, object.Kind))
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: object.Name}, live)
	if err != nil {
		if apierrors.IsNotFound(err) || unknownKind(err) || apierrors.IsForbidden(err) {
			return nil // what it lacks is said of the object itself
		}
		return fmt.Errorf("reading %s: %w", describe(object), err)
	}

	about := []types.UID{live.GetUID()}
	below, err := a.below(ctx, live, awaited)
	if err == nil {
		awaited.Events, err = a.events(ctx, live.GetNamespace(), append(about, below...))
	}
	if apierrors.IsForbidden(err) {
		facts.Unread = append(facts.Unread, fmt.Sprintf("You may not read the pods and events below %s.", describe(object)))
		return nil
	}

	return err
}

// below reads the ReplicaSets and pods of a workload, those of its latest change only, and
// gives their UIDs. Other kinds have none.
func (a *ExtensionExplain) below(ctx context.Context, live *unstructured.Unstructured, awaited *diagnosis.Awaited) ([]types.UID, error) {
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
			if metav1.IsControlledBy(&set, live) && set.Annotations[deploymentRevision] == live.GetAnnotations()[deploymentRevision] {
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

// events reads the events about some objects. Those about an object without a namespace
// are in the namespace default.
func (a *ExtensionExplain) events(ctx context.Context, namespace string, about []types.UID) ([]corev1.Event, error) {
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}

	const enough = 8 // what is said of the first pods is said of all
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
