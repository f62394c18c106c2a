package serving

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
	"github.com/mainstay-dev/mainstay/internal/render"
)

const (
	// maxConcurrentReconciles is how many certificates are reconciled in parallel.
	maxConcurrentReconciles = 2
	// firstRetryInterval and maxRetryInterval limit the exponential backoff of failed attempts.
	firstRetryInterval, maxRetryInterval = 100 * time.Millisecond, time.Minute
)

var serviceKind = corev1.SchemeGroupVersion.WithKind("Service")

// Options are the options of the controller.
type Options struct {
	// SystemNamespace holds the Secrets with the objects of large revisions. Required.
	SystemNamespace string
	// Accounts are the clients of service accounts. Nil creates new ones.
	Accounts *impersonation.Clients
	// Clock is used for the validity of certificates. Nil means the real clock.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups="",resources=services,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;impersonate
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=secrets,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterobjectsets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the issuer of webhook certificates to a manager.
//
// It watches only the metadata of the objects of extensions. Secrets and caBundle are read,
// watched and written with the rights of the extension's service account. The Secrets may be in
// any namespace, so operator-controller would otherwise need rights to all of them.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	metadata, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind}),
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("making the cache of webhooks' metadata: %w", err)
	}
	if err := mgr.Add(metadata); err != nil {
		return fmt.Errorf("adding the cache of webhooks' metadata: %w", err)
	}
	if o.Accounts == nil {
		if o.Accounts, err = account.NewClients(mgr); err != nil {
			return err
		}
	}

	secrets := &secretWatches{log: mgr.GetLogger().WithName("serving")}
	watch := func(kind schema.GroupVersionKind, find func(client.Object) []ctrl.Request, predicates ...predicate.Predicate) source.Source {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		enqueue := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, changed client.Object) []ctrl.Request { return find(changed) })
		return source.Kind[client.Object](metadata, object, enqueue, predicates...)
	}

	b := ctrl.NewControllerManagedBy(mgr).
		Named("serving").
		WatchesRawSource(watch(serviceKind, mapServiceToSecret)).
		WatchesRawSource(secrets).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: maxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetryInterval, maxRetryInterval),
		})

	for _, kind := range consumerKinds {
		b = b.WatchesRawSource(watch(kind, mapConsumerToSecret, predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})))
	}

	certificates := &issuer{
		reader: mgr.GetAPIReader(), metadata: metadata, accounts: o.Accounts, secrets: secrets, systemNamespace: o.SystemNamespace,
		events: mgr.GetEventRecorder("mainstay-serving"), clock: o.Clock,
	}
	if err := b.Complete(certificates.newReconciler()); err != nil {
		return fmt.Errorf("setting up the issuer of webhooks' certificates: %w", err)
	}

	return nil
}

func mapServiceToSecret(service client.Object) []ctrl.Request {
	return requestsForSecret(service.GetNamespace(), service.GetAnnotations()[render.AnnotationServingCertificate])
}

func mapConsumerToSecret(consumer client.Object) []ctrl.Request {
	namespace, name, _ := strings.Cut(consumer.GetAnnotations()[render.AnnotationCAFrom], "/")
	return requestsForSecret(namespace, name)
}

func requestsForSecret(namespace, name string) []ctrl.Request {
	if namespace == "" || name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}
