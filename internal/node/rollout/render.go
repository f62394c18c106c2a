package rollout

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// lostConfigRetryInterval is the time until a deleted configuration is rendered again.
const lostConfigRetryInterval = 100 * time.Millisecond

// renderCache contains the sources of the rendered configuration of each pool, by pool name.
type renderCache struct {
	mu    sync.Mutex
	pools map[string]*poolSources
}

// poolSources are the MachineConfigs of a pool.
type poolSources struct {
	// versions are the resource versions of the MachineConfigs, to detect changes.
	versions string
	// since is the time of the last change.
	since time.Time
	// name is the rendered configuration, and err the error of rendering it. Both are unset before the first attempt.
	name string
	err  error
}

// sourcesOf returns the sources of a pool.
func (m *renderCache) sourcesOf(pool string) poolSources {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.pools[pool]; known != nil {
		return *known
	}
	return poolSources{}
}

func (m *renderCache) setSources(pool string, s poolSources) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pools[pool] = &s
}

// renderedName returns the name of the rendered configuration of a pool. It is empty if there is none.
func (m *renderCache) renderedName(pool string) string { return m.sourcesOf(pool).name }

// ensureConfiguration renders the configuration of the pool if that is due, and sets it in the spec. When rendering
// fails, the pool keeps the previous configuration.
func (r *reconciler) ensureConfiguration(ctx context.Context, pool *mcfgv1.MachineConfigPool, f *facts, d *decision) error {
	if d.sources.versions != f.known.versions {
		r.rendered.setSources(pool.Name, d.sources)
	}

	if d.render {
		d.sources.name, d.sources.err = r.createRenderedConfig(ctx, pool, f, d)
		d.renderError = d.sources.err
		if d.renderError != nil && !isContentError(d.renderError) {
			return d.renderError // It is retried.
		}

		r.rendered.setSources(pool.Name, d.sources)
		select {
		case r.News <- event.GenericEvent{Object: pool}:
		default:
		}
	}

	if d.renderError != nil || d.sources.name == "" {
		return nil //nolint:nilerr // a condition reports it, and nodes go on to the last configuration
	}

	return r.setPoolConfiguration(ctx, pool, f, d)
}

// listSelectedConfigs returns the MachineConfigs that the pool selects, in merge order.
func (r *reconciler) listSelectedConfigs(ctx context.Context, pool *mcfgv1.MachineConfigPool) ([]*mcfgv1.MachineConfig, error) {
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.machineConfigSelector: %w", err)
	}

	var list mcfgv1.MachineConfigList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MachineConfigs: %w", err)
	}

	var configs []*mcfgv1.MachineConfig
	for i := range list.Items {
		if c := &list.Items[i]; !isRendered(c) && selector.Matches(labels.Set(c.Labels)) {
			configs = append(configs, c)
		}
	}

	return config.Ordered(configs), nil
}

// isRendered reports whether a MachineConfig is a rendered configuration.
func isRendered(c *mcfgv1.MachineConfig) bool {
	owner := metav1.GetControllerOf(c)
	return owner != nil && owner.Kind == mcfgv1.MachineConfigPoolKind
}

func sourceVersions(pool *mcfgv1.MachineConfigPool, configs []*mcfgv1.MachineConfig) string {
	var b strings.Builder
	b.WriteString(string(pool.UID))
	for _, c := range configs {
		b.WriteString(" " + string(c.UID) + "/" + strconv.FormatInt(c.Generation, 10) + "/" + c.Labels[mcfgv1.LabelRole])
	}
	return b.String()
}

// contentError is an error that persists until a MachineConfig changes.
type contentError struct{ error }

func (e contentError) Unwrap() error { return e.error }

func isContentError(err error) bool {
	_, ok := err.(contentError) //nolint:errorlint // it is never wrapped
	return ok
}

// createRenderedConfig renders the configuration of the pool, and creates it unless it exists.
func (r *reconciler) createRenderedConfig(ctx context.Context, pool *mcfgv1.MachineConfigPool, f *facts, d *decision) (string, error) {
	if s := pool.Spec.MachineConfigSelector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		d.events = append(d.events, reconcile.Event{
			Warning: true, Reason: "SelectingAll", Action: "Render", Note: "This pool is selecting all MachineConfigs: its spec.machineConfigSelector is empty",
		})
	}

	rendered, err := config.Render(pool.Name, r.Release, f.configs)
	if err != nil {
		return "", contentError{err}
	}

	object := &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: rendered.Name, Annotations: map[string]string{
			mcfgv1.AnnotationGeneratedBy: r.Program, mcfgv1.AnnotationReleaseVersion: r.ReleaseVersion,
		}},
		Spec: rendered.Spec,
	}
	if rendered.OSImageOverridden {
		object.Annotations[mcfgv1.AnnotationOSImageOverridden] = "true"
	}
	if err := controllerutil.SetControllerReference(pool, object, r.client.Scheme()); err != nil {
		return "", fmt.Errorf("making MachineConfig %q: %w", rendered.Name, err)
	}

	err = r.client.Create(ctx, object)
	switch {
	case apierrors.IsAlreadyExists(err):
		return rendered.Name, r.checkExisting(ctx, rendered.Name)
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return "", contentError{fmt.Errorf("creating MachineConfig %q: %w", rendered.Name, err)}
	case err != nil:
		return "", fmt.Errorf("creating MachineConfig %q: %w", rendered.Name, err)
	}

	d.events = append(d.events, reconcile.Event{Reason: "RenderedConfigGenerated", Action: "Render", Note: rendered.Name + " successfully generated"})
	return rendered.Name, nil
}

// checkExisting verifies that an existing rendered configuration has the content that its name states.
func (r *reconciler) checkExisting(ctx context.Context, name string) error {
	var existing mcfgv1.MachineConfig
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &existing); err != nil {
		return fmt.Errorf("reading MachineConfig %q: %w", name, err)
	}
	if err := config.CheckName(&existing); err != nil {
		return fmt.Errorf("%w; delete it, and it is rendered again", err)
	}
	return nil
}

// setPoolConfiguration sets the configuration in the spec of the pool.
func (r *reconciler) setPoolConfiguration(ctx context.Context, pool *mcfgv1.MachineConfigPool, f *facts, d *decision) error {
	name := d.sources.name
	var existing mcfgv1.MachineConfig
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, &existing)
	if apierrors.IsNotFound(err) {
		// The cache may not contain it yet.
		err = r.reader.Get(ctx, client.ObjectKey{Name: name}, &existing)
	}

	if apierrors.IsNotFound(err) {
		r.rendered.setSources(pool.Name, poolSources{})
		d.requeueAfter = lostConfigRetryInterval
		return nil // It was deleted: render it again.
	}

	if err != nil {
		return fmt.Errorf("reading MachineConfig %q: %w", name, err)
	}

	wanted := mcfgv1.MachineConfigPoolConfiguration{ObjectReference: configReference(name)}
	for _, c := range f.configs {
		wanted.Source = append(wanted.Source, configReference(c.Name))
	}

	if isSameConfiguration(&pool.Spec.Configuration, &wanted) {
		return nil
	}

	before := pool.DeepCopy()
	pool.Spec.Configuration = wanted
	if err := r.client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		pool.Spec.Configuration = before.Spec.Configuration
		return fmt.Errorf("naming the configuration of pool %q: %w", pool.Name, err)
	}

	return nil
}

func configReference(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: mcfgv1.GroupVersion.String(), Kind: mcfgv1.MachineConfigKind, Name: name}
}

func isSameConfiguration(a, b *mcfgv1.MachineConfigPoolConfiguration) bool {
	if a.Name != b.Name || len(a.Source) != len(b.Source) {
		return false
	}

	for i := range a.Source {
		if a.Source[i].Name != b.Source[i].Name {
			return false
		}
	}
	return true
}
