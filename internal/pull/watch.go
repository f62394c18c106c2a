package pull

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
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
)

// +kubebuilder:rbac:groups=config.openshift.io,resources=imagedigestmirrorsets;imagetagmirrorsets,verbs=list;watch
// +kubebuilder:rbac:groups=operator.openshift.io,resources=imagecontentsourcepolicies,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// lookEvery is how often the cluster is asked whether it has the kinds. They come and go
	// with their definitions, which happens once in a cluster's life.
	lookEvery = 15 * time.Second
	// syncTimeout is how long the first list of a kind may take. The servers go on without
	// it then, and try again.
	syncTimeout = 20 * time.Second
)

// reasonInvalid is the reason of events about what is left out of the rules.
const reasonInvalid = "InvalidMirror"

// discoverer tells which kinds a group and version has. A discovery client is one.
type discoverer interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// kind is one by which a cluster declares mirrors.
type kind struct {
	gvk     schema.GroupVersionKind
	object  client.Object
	watched bool
}

// watcher keeps the rules that follow from what a cluster declares.
type watcher struct {
	cache      cache.Cache
	discoverer discoverer
	events     events.EventRecorder
	log        logr.Logger
	every      time.Duration
	kinds      []*kind
	changed    chan struct{}
	ready      chan struct{}
	rules      atomic.Pointer[[]image.MirrorRule]
	invalid    []mirror.Invalid // what was told of
}

func newWatcher(objects cache.Cache, served discoverer, recorder events.EventRecorder, log logr.Logger) *watcher {
	return &watcher{
		cache: objects, discoverer: served, events: recorder, log: log, every: lookEvery,
		changed: make(chan struct{}, 1), ready: make(chan struct{}),
		kinds: []*kind{
			{gvk: configv1.GroupVersion.WithKind(configv1.ImageDigestMirrorSetKind), object: &configv1.ImageDigestMirrorSet{}},
			{gvk: configv1.GroupVersion.WithKind(configv1.ImageTagMirrorSetKind), object: &configv1.ImageTagMirrorSet{}},
			{gvk: operatorv1alpha1.GroupVersion.WithKind(operatorv1alpha1.ImageContentSourcePolicyKind), object: &operatorv1alpha1.ImageContentSourcePolicy{}},
		},
	}
}

// NeedLeaderElection is false: every replica pulls.
func (w *watcher) NeedLeaderElection() bool { return false }

// Rules returns the rules of this moment.
func (w *watcher) Rules() []image.MirrorRule {
	if rules := w.rules.Load(); rules != nil {
		return *rules
	}
	return nil
}

// Wait waits until the rules are known for the first time.
func (w *watcher) Wait(ctx context.Context) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start keeps the rules until the context ends.
func (w *watcher) Start(ctx context.Context) error {
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	w.look(ctx)
	w.refresh(ctx)
	close(w.ready)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			w.look(ctx)
		case <-w.changed:
			w.refresh(ctx)
		}
	}
}

// look begins to watch kinds that have come, and ends it for those that have gone.
func (w *watcher) look(ctx context.Context) {
	for _, k := range w.kinds {
		served, err := w.served(k.gvk)
		if err == nil && served != k.watched {
			if err = w.follow(ctx, k, served); err == nil {
				w.log.Info("mirrors are declared by a kind", "kind", k.gvk.Kind, "served", served)
			}
		}
		if err != nil && ctx.Err() == nil {
			w.log.Error(err, "the mirrors that the cluster declares are not complete", "kind", k.gvk.Kind)
		}
		measured.watched.WithLabelValues(k.gvk.Kind).Set(number(k.watched))
	}
}

// served reports whether the cluster has a kind.
func (w *watcher) served(gvk schema.GroupVersionKind) (bool, error) {
	list, err := w.discoverer.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking for the kinds of %s: %w", gvk.GroupVersion(), err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind }), nil
}

func (w *watcher) follow(ctx context.Context, k *kind, served bool) error {
	defer w.signal()
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
			AddFunc:    func(any) { w.signal() },
			UpdateFunc: func(_, _ any) { w.signal() },
			DeleteFunc: func(any) { w.signal() },
		})
	}

	if err != nil {
		return fmt.Errorf("watching %s: %w", k.gvk.Kind, err)
	}

	k.watched = true
	return nil
}

// signal has the rules made again.
func (w *watcher) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // It will be, for another change.
	}
}

// refresh makes the rules from what the cluster declares.
func (w *watcher) refresh(ctx context.Context) {
	objects, err := w.list(ctx)
	if err != nil {
		// The rules that there are go on; the next change, or look, tries again.
		w.log.Error(err, "the mirrors that the cluster declares were not read")
		return
	}

	rules, invalid := mirror.Rules(objects)
	w.rules.Store(&rules)
	w.tell(rules, invalid)
}

func (w *watcher) list(ctx context.Context) (mirror.Objects, error) {
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

// tell makes known what the rules are, and what is left out of them when that is new.
func (w *watcher) tell(rules []image.MirrorRule, invalid []mirror.Invalid) {
	measured.rules.Set(float64(len(rules)))
	measured.invalid.Set(float64(len(invalid)))
	w.log.V(1).Info("mirrors", "rules", rules)
	notes := map[types.UID]string{} // one event for each object: more of them would become one
	for _, i := range invalid {
		notes[i.UID] = strings.TrimPrefix(notes[i.UID]+"; "+i.Field+": "+i.Message, "; ")
	}

	for _, i := range invalid {
		if slices.Contains(w.invalid, i) {
			continue
		}
		w.log.Info("a mirror that the cluster declares is not used", "kind", i.Kind, "name", i.Name, "field", i.Field, "reason", i.Message)
		if note, ok := notes[i.UID]; ok {
			w.events.Eventf(w.reference(i), nil, corev1.EventTypeWarning, reasonInvalid, "ReadMirrors", "%s", shorten(note))
			delete(notes, i.UID)
		}
	}

	w.invalid = invalid
}

// maxNote is how long the API server lets the text of an event be, in bytes.
const maxNote = 1024

func shorten(note string) string {
	if len(note) <= maxNote {
		return note
	}
	const more = "…"
	return strings.ToValidUTF8(note[:maxNote-len(more)], "") + more
}

// reference names the object that an event is about.
func (w *watcher) reference(i mirror.Invalid) runtime.Object {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: i.Name, UID: i.UID}}
	for _, k := range w.kinds {
		if k.gvk.Kind == i.Kind {
			object.SetGroupVersionKind(k.gvk)
		}
	}
	return object
}

// measured are the metrics of mirrors, registered once for the process.
var measured = struct {
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

func init() {
	crmetrics.Registry.MustRegister(measured.rules, measured.invalid, measured.watched)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
