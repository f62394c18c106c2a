package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	machineconfigv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// watchedKinds are the kinds whose changes a page can follow, by the name of their resource.
var watchedKinds = map[string]schema.GroupVersionKind{
	"clusterextensions":      olmv1.GroupVersion.WithKind("ClusterExtension"),
	"clusterobjectsets":      olmv1.GroupVersion.WithKind("ClusterObjectSet"),
	"clustercatalogs":        olmv1.GroupVersion.WithKind("ClusterCatalog"),
	"subscriptions":          v1alpha1.GroupVersion.WithKind("Subscription"),
	"clusterserviceversions": v1alpha1.GroupVersion.WithKind("ClusterServiceVersion"),
	"installplans":           v1alpha1.GroupVersion.WithKind("InstallPlan"),
	"catalogsources":         v1alpha1.GroupVersion.WithKind("CatalogSource"),
	"operatorgroups":         operatorsv1.GroupVersion.WithKind("OperatorGroup"),
	"clusterversions":        configv1.GroupVersion.WithKind("ClusterVersion"),
	"clusteroperators":       configv1.GroupVersion.WithKind("ClusterOperator"),
	"machineconfigpools":     machineconfigv1.GroupVersion.WithKind("MachineConfigPool"),
	"operatorhubs":           configv1.GroupVersion.WithKind("OperatorHub"),
}

// findWatchedKind returns the kind for a name of watchedKinds, or for a custom resource such as kafkas.v1.example.com. Kinds of
// the core group, such as Secrets, have no such name.
func findWatchedKind(c client.Client, name string) (schema.GroupVersionKind, bool) {
	if kind, ok := watchedKinds[name]; ok {
		return kind, true
	}
	resource, _ := schema.ParseResourceArg(name)
	if resource == nil || !strings.Contains(resource.Group, ".") {
		return schema.GroupVersionKind{}, false
	}
	kind, err := c.RESTMapper().KindFor(*resource)
	return kind, err == nil
}

// Intervals of streams.
const (
	// changeInterval is the shortest time between two messages about a kind.
	changeInterval = 500 * time.Millisecond
	// watchRetryInterval is the time until a watch that ended is started again.
	watchRetryInterval = 5 * time.Second
	// heartbeatInterval is the time between messages that keep proxies from closing the stream.
	heartbeatInterval = 25 * time.Second
)

// eventsInput selects what a stream reports.
type eventsInput struct {
	Kinds     []string `query:"kinds" maxItems:"12" doc:"Resources whose changes are reported, separated by commas: names such as subscriptions, or plural.version.group of custom resources."`
	Namespace string   `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Namespace of the namespaced resources. Empty means all."`
}

// Changed means that objects of a kind have changed since the last message, or may have.
type Changed struct {
	Kind string `json:"kind"`
}

// Unwatched means that changes of a kind are not reported, and why. The page asks again at intervals.
type Unwatched struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	// Forbidden means that the user lacks the permission, and that the stream does not try again.
	Forbidden bool `json:"forbidden,omitempty"`
}

// Heartbeat shows that the stream is alive.
type Heartbeat struct{}

// SignedOut means that the session has ended. It is the last message of a stream.
type SignedOut struct{}

// A deadline for writing also ends a stream of HTTP/2 on which nothing is being written, so it is longer than the interval of
// heartbeats.
func init() { sse.WriteTimeout = 2 * heartbeatInterval }

// registerEvents adds the stream of changes.
func (s *Server) registerEvents() {
	operation := huma.Operation{OperationID: "watchEvents", Method: http.MethodGet, Path: apiPrefix + "/events", Summary: "Changes, as server-sent events"}
	messages := map[string]any{"changed": Changed{}, "unwatched": Unwatched{}, "heartbeat": Heartbeat{}, "signedOut": SignedOut{}}
	sse.Register(s.api, operation, messages, func(ctx context.Context, input *eventsInput, send sse.Sender) {
		s.streamChanges(ctx, sessionOf(ctx), input, send)
	})
}

// streamChanges watches the kinds and reports changes until the client leaves or the session ends.
func (s *Server) streamChanges(ctx context.Context, user *session.Session, input *eventsInput, send sse.Sender) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages := make(chan any)
	kinds := slices.Compact(slices.Sorted(slices.Values(input.Kinds)))
	for _, name := range kinds {
		kind, ok := findWatchedKind(user.Client, name)
		if !ok {
			continue
		}
		w := &kindWatcher{client: user.Client, name: name, kind: kind, namespace: input.Namespace, messages: messages}
		go w.run(ctx)
	}

	heartbeat := time.NewTicker(heartbeatInterval)
	defer heartbeat.Stop()
	for {
		var message any
		select {
		case <-ctx.Done():
			return
		case <-user.Done():
			_ = send.Data(SignedOut{}) // the stream ends in any case
			return
		case <-heartbeat.C:
			s.sessions.RemoveEnded() // the session of a page that only listens
			message = Heartbeat{}
		case message = <-messages:
		}
		if err := send.Data(message); err != nil {
			return
		}
	}
}

// kindWatcher reports changes of a kind.
type kindWatcher struct {
	client    client.WithWatch
	name      string
	kind      schema.GroupVersionKind
	namespace string
	messages  chan<- any
}

// run watches until the context is done, or until the user turns out to lack the permission. A kind that the cluster does
// not have is tried again, because it may be installed later.
func (w *kindWatcher) run(ctx context.Context) {
	for {
		err := w.watchOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case apierrors.IsForbidden(err):
			w.sendMessage(ctx, Unwatched{Kind: w.name, Reason: err.Error(), Forbidden: true})
			return
		case err != nil:
			w.sendMessage(ctx, Unwatched{Kind: w.name, Reason: err.Error()})
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(watchRetryInterval):
		}
	}
}

// watchOnce watches until the watch ends. It reports a change at the beginning, because changes may have been missed.
func (w *kindWatcher) watchOnce(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(w.kind.GroupVersion().WithKind(w.kind.Kind + "List"))
	watcher, err := w.client.Watch(ctx, list, client.InNamespace(w.namespace))
	if err != nil {
		return err
	}
	defer watcher.Stop()

	// The first change starts the timer; those until it ends are part of the same message.
	timer := time.NewTimer(0)
	timer.Stop()
	isPending := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			isPending = false
			w.sendMessage(ctx, Changed{Kind: w.name})
		case event, open := <-watcher.ResultChan():
			switch {
			case !open:
				return nil
			case event.Type == watch.Error:
				return apierrors.FromObject(event.Object)
			case !isPending:
				isPending = true
				timer.Reset(changeInterval)
			}
		}
	}
}

// sendMessage sends a message unless the stream has ended.
func (w *kindWatcher) sendMessage(ctx context.Context, message any) {
	select {
	case <-ctx.Done():
	case w.messages <- message:
	}
}
