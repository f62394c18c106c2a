package pull

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	operatorv1alpha1 "github.com/mainstay-dev/mainstay/api/operator/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pull/mirror"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// +kubebuilder:rbac:groups=config.openshift.io,resources=imagedigestmirrorsets;imagetagmirrorsets,verbs=list;watch
// +kubebuilder:rbac:groups=operator.openshift.io,resources=imagecontentsourcepolicies,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// discoveryResyncInterval is how often discovery is queried for the kinds. They appear and
	// disappear with their CRDs, which happens rarely.
	discoveryResyncInterval = 15 * time.Second
	// syncTimeout is the timeout of the first list of a kind. After it the server continues
	// without the kind, and retries.
	syncTimeout = 20 * time.Second
)

// reasonInvalid is the reason of events about invalid entries.
const reasonInvalid = "InvalidMirror"

// discoverer returns the kinds of a group and version. A discovery client implements it.
type discoverer interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// mirrorKind is a kind that declares mirrors.
type mirrorKind struct {
	gvk     schema.GroupVersionKind
	object  client.Object
	watched bool
}

// mirrorWatcher maintains the mirror rules of the cluster.
type mirrorWatcher struct {
	cache             cache.Cache
	discoverer        discoverer
	events            events.EventRecorder
	log               logr.Logger
	discoveryInterval time.Duration
	kinds             []*mirrorKind
	changed           chan struct{}
	ready             chan struct{}
	rules             atomic.Pointer[[]image.MirrorRule]
	reportedInvalid   []mirror.Invalid // what was reported
}

func newMirrorWatcher(objects cache.Cache, served discoverer, recorder events.EventRecorder, log logr.Logger) *mirrorWatcher {
	return &mirrorWatcher{
		cache: objects, discoverer: served, events: recorder, log: log, discoveryInterval: discoveryResyncInterval,
		changed: make(chan struct{}, 1), ready: make(chan struct{}),
		kinds: []*mirrorKind{
			{gvk: configv1.GroupVersion.WithKind(configv1.ImageDigestMirrorSetKind), object: &configv1.ImageDigestMirrorSet{}},
			{gvk: configv1.GroupVersion.WithKind(configv1.ImageTagMirrorSetKind), object: &configv1.ImageTagMirrorSet{}},
			{gvk: operatorv1alpha1.GroupVersion.WithKind(operatorv1alpha1.ImageContentSourcePolicyKind), object: &operatorv1alpha1.ImageContentSourcePolicy{}},
		},
	}
}

// NeedLeaderElection returns false: every replica pulls images.
func (w *mirrorWatcher) NeedLeaderElection() bool { return false }

// Rules returns the current rules.
func (w *mirrorWatcher) Rules() []image.MirrorRule {
	if rules := w.rules.Load(); rules != nil {
		return *rules
	}
	return nil
}

// Wait waits until the rules are known for the first time.
func (w *mirrorWatcher) Wait(ctx context.Context) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start maintains the rules until the context is done.
func (w *mirrorWatcher) Start(ctx context.Context) error {
	ticker := time.NewTicker(w.discoveryInterval)
	defer ticker.Stop()
	w.syncKindWatches(ctx)
	w.refreshRules(ctx)
	close(w.ready)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			w.syncKindWatches(ctx)
		case <-w.changed:
			w.refreshRules(ctx)
		}
	}
}

// syncKindWatches starts watches of kinds that are newly served, and stops those of kinds that are no
// longer served.
func (w *mirrorWatcher) syncKindWatches(ctx context.Context) {
	listed := map[schema.GroupVersion]servedKinds{}
	for _, k := range w.kinds {
		version := k.gvk.GroupVersion()
		if _, ok := listed[version]; !ok {
			listed[version] = w.listServed(version)
		}

		served, err := slices.Contains(listed[version].kinds, k.gvk.Kind), listed[version].err
		if err == nil && served != k.watched {
			if err = w.updateInformer(ctx, k, served); err == nil {
				w.log.Info("mirrors are declared by a kind", "kind", k.gvk.Kind, "served", served)
			}
		}
		if err != nil && ctx.Err() == nil {
			w.log.Error(err, "the mirrors that the cluster declares are not complete", "kind", k.gvk.Kind)
		}
		metrics.watched.WithLabelValues(k.gvk.Kind).Set(boolToFloat(k.watched))
	}
}

// servedKinds are the kinds of a group version that the cluster serves, or why they are not known.
type servedKinds struct {
	kinds []string
	err   error
}

// listServed returns the kinds of a group version that the cluster serves.
func (w *mirrorWatcher) listServed(version schema.GroupVersion) servedKinds {
	list, err := w.discoverer.ServerResourcesForGroupVersion(version.String())
	switch {
	case apierrors.IsNotFound(err):
		return servedKinds{}
	case err != nil:
		return servedKinds{err: fmt.Errorf("discovering the kinds of %s: %w", version, err)}
	}

	var served servedKinds
	for _, resource := range list.APIResources {
		served.kinds = append(served.kinds, resource.Kind)
	}
	return served
}

func (w *mirrorWatcher) updateInformer(ctx context.Context, k *mirrorKind, served bool) error {
	defer w.signalChange()
	if !served {
		k.watched = false
		return w.cache.RemoveInformer(ctx, k.object)
	}

	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	informer, err := w.cache.GetInformer(ctx, k.object)
	if err == nil && !informer.HasSynced() {
		err = context.DeadlineExceeded
	}

	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { w.signalChange() },
			UpdateFunc: func(_, _ any) { w.signalChange() },
			DeleteFunc: func(any) { w.signalChange() },
		})
	}

	if err != nil {
		return fmt.Errorf("watching %s: %w", k.gvk.Kind, err)
	}

	k.watched = true
	return nil
}

// signalChange triggers a refresh of the rules.
func (w *mirrorWatcher) signalChange() {
	select {
	case w.changed <- struct{}{}:
	default: // A refresh is already pending.
	}
}

// refreshRules computes the rules from the objects in the cache.
func (w *mirrorWatcher) refreshRules(ctx context.Context) {
	objects, err := w.listObjects(ctx)
	if err != nil {
		// The current rules stay. The next change, or sync of the watches, retries.
		w.log.Error(err, "the mirrors that the cluster declares were not read")
		return
	}

	rules, invalid := mirror.Rules(objects)
	w.rules.Store(&rules)
	w.reportRules(rules, invalid)
}

func (w *mirrorWatcher) listObjects(ctx context.Context) (mirror.Objects, error) {
	var digests configv1.ImageDigestMirrorSetList
	var tags configv1.ImageTagMirrorSetList
	var policies operatorv1alpha1.ImageContentSourcePolicyList
	for i, list := range []client.ObjectList{&digests, &tags, &policies} {
		if !w.kinds[i].watched {
			continue
		}
		if err := w.cache.List(ctx, list); err != nil {
			return mirror.Objects{}, fmt.Errorf("listing %s: %w", w.kinds[i].gvk.Kind, err)
		}
	}

	return mirror.Objects{Digests: digests.Items, Tags: tags.Items, Policies: policies.Items}, nil
}

// reportRules sets the metrics, and reports new invalid entries by logs and events.
func (w *mirrorWatcher) reportRules(rules []image.MirrorRule, invalid []mirror.Invalid) {
	metrics.rules.Set(float64(len(rules)))
	metrics.invalid.Set(float64(len(invalid)))
	w.log.V(1).Info("mirrors", "rules", rules)
	notes := map[types.UID]string{} // one event for each object: several would be aggregated
	for _, i := range invalid {
		notes[i.UID] = strings.TrimPrefix(notes[i.UID]+"; "+i.Field+": "+i.Message, "; ")
	}

	for _, i := range invalid {
		if slices.Contains(w.reportedInvalid, i) {
			continue
		}
		w.log.Info("a mirror that the cluster declares is not used", "kind", i.Kind, "name", i.Name, "field", i.Field, "reason", i.Message)
		if note, ok := notes[i.UID]; ok {
			reconcile.Record(w.events, w.eventObject(i), reconcile.Event{Warning: true, Reason: reasonInvalid, Action: "ReadMirrors", Note: note})
			delete(notes, i.UID)
		}
	}

	w.reportedInvalid = invalid
}

// eventObject returns the object that an event is about.
func (w *mirrorWatcher) eventObject(i mirror.Invalid) runtime.Object {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: i.Name, UID: i.UID}}
	for _, k := range w.kinds {
		if k.gvk.Kind == i.Kind {
			object.SetGroupVersionKind(k.gvk)
		}
	}
	return object
}

// metrics are the metrics of mirrors, registered once for the process.
var metrics = struct {
	rules, invalid prometheus.Gauge
	watched        *prometheus.GaugeVec
}{
	rules: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mainstay_image_mirror_sources",
		Help: "Sources of images for which the cluster declares mirrors.",
	}),
	invalid: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mainstay_image_mirror_invalid_entries",
		Help: "Entries of mirror objects that are not used, because they are not valid.",
	}),
	watched: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mainstay_image_mirror_kind_watched",
		Help: "Whether a kind that declares mirrors is watched (1): the cluster has it, and it could be listed.",
	}, []string{"kind"}),
}

// registerMetrics registers the metrics. Setup calls it, so that a process exports them only if it pulls images.
var registerMetrics = sync.OnceFunc(func() {
	crmetrics.Registry.MustRegister(metrics.rules, metrics.invalid, metrics.watched)
})

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
