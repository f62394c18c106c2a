package console

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// maxEvents limits the events of an object.
const maxEvents = 200

// EventRecord is an event about an object.
type EventRecord struct {
	Type    string     `json:"type"`
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Count   int32      `json:"count,omitempty"`
	Last    *time.Time `json:"last,omitempty"`
}

// Source is an object as YAML with its events.
type Source struct {
	Manifest        Manifest `json:"manifest"`
	Generation      int64    `json:"generation"`
	ResourceVersion string   `json:"resourceVersion"`
	// Events are the newest first.
	Events []EventRecord `json:"events"`
	// EventsProblem states why the events could not be read.
	EventsProblem string `json:"eventsProblem,omitempty"`
	// Rules are the rights of an operator of OLM Classic.
	Rules []ScopedRule `json:"rules,omitempty"`
	// CRDs are those of an operator of OLM Classic that users create custom resources of.
	CRDs []string `json:"crds,omitempty"`
	// Required is what an operator of OLM Classic requires and does not exist.
	Required *RequiredResource `json:"required,omitempty"`
}

// registerRelated adds the operations about the objects of extensions and operators themselves.
func registerRelated(api huma.API) {
	get(api, "getExtensionSource", "/extensions/{name}/source", "A ClusterExtension as YAML with its events",
		func(ctx context.Context, user *session.Session, input *nameInput) (Source, error) {
			extension := &olmv1.ClusterExtension{}
			extension.SetGroupVersionKind(olmv1.GroupVersion.WithKind(olmv1.ClusterExtensionKind))
			return readSource(ctx, user, client.ObjectKey{Name: input.Name}, extension)
		})
	get(api, "getSubscriptionSource", "/namespaces/{namespace}/subscriptions/{name}/source", "A Subscription as YAML with its events and the rights of its operator", readSubscriptionSource)
}

// readSource returns an object as YAML, and its events.
func readSource(ctx context.Context, user *session.Session, key client.ObjectKey, object client.Object) (Source, error) {
	kind := object.GetObjectKind().GroupVersionKind()
	if err := user.Client.Get(ctx, key, object); err != nil {
		return Source{}, action.NewServerError(kind.Kind+" "+key.Name, err)
	}

	object.GetObjectKind().SetGroupVersionKind(kind)
	source := Source{Generation: object.GetGeneration(), ResourceVersion: object.GetResourceVersion(), Events: []EventRecord{}}
	object.SetManagedFields(nil)
	text, err := yaml.Marshal(object)
	if err != nil {
		return source, err
	}
	source.Manifest = Manifest{Kind: kind.Kind, Namespace: key.Namespace, Name: key.Name, YAML: string(text)}

	var list corev1.EventList
	namespace := cmp.Or(key.Namespace, metav1.NamespaceDefault) // events about cluster-scoped objects
	err = user.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": string(object.GetUID())}, client.Limit(maxEvents))
	if err != nil {
		source.EventsProblem = asSentence(err.Error())
		return source, nil
	}
	for i := range list.Items {
		source.Events = append(source.Events, newEventRecord(&list.Items[i]))
	}
	slices.SortStableFunc(source.Events, func(a, b EventRecord) int { return b.lastTime().Compare(a.lastTime()) })
	return source, nil
}

func (e *EventRecord) lastTime() time.Time {
	if e.Last == nil {
		return time.Time{}
	}
	return *e.Last
}

func newEventRecord(event *corev1.Event) EventRecord {
	record := EventRecord{Type: event.Type, Reason: event.Reason, Message: event.Message, Count: event.Count}
	last := event.LastTimestamp.Time
	if series := event.Series; series != nil {
		record.Count, last = series.Count, series.LastObservedTime.Time
	}
	if last.IsZero() {
		last = event.EventTime.Time
	}
	if last.IsZero() {
		last = event.CreationTimestamp.Time
	}
	record.Last = &last
	return record
}

func readSubscriptionSource(ctx context.Context, user *session.Session, input *namespacedNameInput) (Source, error) {
	sub := &v1alpha1.Subscription{}
	sub.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.SubscriptionKind))
	source, err := readSource(ctx, user, client.ObjectKey{Namespace: input.Namespace, Name: input.Name}, sub)
	if err != nil || sub.Status.InstalledCSV == "" {
		return source, err
	}

	csv := &v1alpha1.ClusterServiceVersion{}
	if err := user.Client.Get(ctx, client.ObjectKey{Namespace: input.Namespace, Name: sub.Status.InstalledCSV}, csv); err != nil {
		return source, nil //nolint:nilerr // the page of the operator states that it cannot be read
	}
	source.CRDs, source.Required = providedCRDs(csv), findMissingResource(ctx, user, csv)
	spec := csv.Spec.InstallStrategy.StrategySpec
	for _, permission := range spec.ClusterPermissions {
		for _, rule := range permission.Rules {
			source.Rules = append(source.Rules, newScopedRule("", rule))
		}
	}
	for _, permission := range spec.Permissions {
		for _, rule := range permission.Rules {
			source.Rules = append(source.Rules, newScopedRule(input.Namespace, rule))
		}
	}
	return source, nil
}

// annotationInternalObjects has the CRDs of an operator that users do not create custom resources of, as a JSON array.
const annotationInternalObjects = "operators.operatorframework.io/internal-objects"

// providedCRDs returns the CRDs of an operator without internal ones. A malformed annotation hides none.
func providedCRDs(csv *v1alpha1.ClusterServiceVersion) []string {
	var internal []string
	if err := json.Unmarshal([]byte(csv.Annotations[annotationInternalObjects]), &internal); err != nil {
		internal = nil
	}

	var names []string
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		if !slices.Contains(internal, crd.Name) && !slices.Contains(names, crd.Name) {
			names = append(names, crd.Name)
		}
	}
	return names
}
