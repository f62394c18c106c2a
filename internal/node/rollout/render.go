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
)

// renderCache is what is known of the MachineConfigs of each pool, by its name.
type renderCache struct {
	mu    sync.Mutex
	pools map[string]*poolSources
}

// poolSources are the MachineConfigs of a pool.
type poolSources struct {
	// versions reports whether they have changed.
	versions string
	// since is when they became as they are.
	since time.Time
	// name is the configuration that was rendered of them, err why none could be. Both are unset
	// before it was tried.
	name string
	err  error
}

// sourcesOf returns what is known of a pool.
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

// renderedName returns the configuration that was rendered for a pool, empty for none.
func (m *renderCache) renderedName(pool string) string { return m.sourcesOf(pool).name }

// renderConfig renders the configuration of the pool and sets it in the spec. When rendering fails, the pool keeps the
// previous configuration.
func (a *attempt) renderConfig(ctx context.Context, pool *mcfgv1.MachineConfigPool) error {
	configs, err := a.listSelectedConfigs(ctx, pool)
	if a.renderError = err; a.renderError != nil {
		return nil //nolint:nilerr // a condition reports it, and nodes go on to the last configuration
	}

	known, now := a.rendered.sourcesOf(pool.Name), a.Clock.Now()
	if versions := sourceVersions(pool, configs); known.versions != versions {
		known = poolSources{versions: versions, since: now}
		a.rendered.setSources(pool.Name, known)
	}

	if known.name == "" && known.err == nil {
		if left := a.Settle - now.Sub(known.since); left > 0 {
			a.requeueAfter = left
			return nil
		}

		known.name, known.err = a.createRenderedConfig(ctx, pool, configs)
		if known.err != nil && !isContentError(known.err) {
			a.renderError = known.err
			return known.err // It is retried.
		}

		a.rendered.setSources(pool.Name, known)
		select {
		case a.News <- event.GenericEvent{Object: pool}:
		default:
		}
	}

	if a.renderError = known.err; a.renderError != nil {
		return nil //nolint:nilerr // the same
	}

	return a.setPoolConfiguration(ctx, pool, known.name, configs)
}

// listSelectedConfigs returns the MachineConfigs that the pool selects, in merge order.
func (a *attempt) listSelectedConfigs(ctx context.Context, pool *mcfgv1.MachineConfigPool) ([]*mcfgv1.MachineConfig, error) {
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.machineConfigSelector: %w", err)
	}

	var list mcfgv1.MachineConfigList
	if err := a.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
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

// isRendered reports whether a MachineConfig is one that a pool's was rendered into.
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
func (a *attempt) createRenderedConfig(ctx context.Context, pool *mcfgv1.MachineConfigPool, configs []*mcfgv1.MachineConfig) (string, error) {
	if s := pool.Spec.MachineConfigSelector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		a.events.Eventf(pool, nil, corev1.EventTypeWarning, "SelectingAll", "Render", "This pool is selecting all MachineConfigs: its spec.machineConfigSelector is empty")
	}

	rendered, err := config.Render(pool.Name, a.Release, configs)
	if err != nil {
		return "", contentError{err}
	}

	object := &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: rendered.Name, Annotations: map[string]string{
			mcfgv1.AnnotationGeneratedBy: a.Program, mcfgv1.AnnotationReleaseVersion: a.ReleaseVersion,
		}},
		Spec: rendered.Spec,
	}
	if rendered.OSImageOverridden {
		object.Annotations[mcfgv1.AnnotationOSImageOverridden] = "true"
	}
	if err := controllerutil.SetControllerReference(pool, object, a.client.Scheme()); err != nil {
		return "", fmt.Errorf("making MachineConfig %q: %w", rendered.Name, err)
	}

	err = a.client.Create(ctx, object)
	switch {
	case apierrors.IsAlreadyExists(err):
		return rendered.Name, a.checkExisting(ctx, rendered.Name)
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return "", contentError{fmt.Errorf("creating MachineConfig %q: %w", rendered.Name, err)}
	case err != nil:
		return "", fmt.Errorf("creating MachineConfig %q: %w", rendered.Name, err)
	}

	a.events.Eventf(pool, nil, corev1.EventTypeNormal, "RenderedConfigGenerated", "Render", "%s successfully generated", rendered.Name)
	return rendered.Name, nil
}

// checkExisting verifies that an existing rendered configuration has the content that its name states.
func (a *attempt) checkExisting(ctx context.Context, name string) error {
	var existing mcfgv1.MachineConfig
	if err := a.client.Get(ctx, client.ObjectKey{Name: name}, &existing); err != nil {
		return fmt.Errorf("reading MachineConfig %q: %w", name, err)
	}
	if err := config.CheckName(&existing); err != nil {
		return fmt.Errorf("%w; delete it, and it is rendered again", err)
	}
	return nil
}

// setPoolConfiguration sets the configuration in the spec of the pool.
func (a *attempt) setPoolConfiguration(ctx context.Context, pool *mcfgv1.MachineConfigPool, name string, configs []*mcfgv1.MachineConfig) error {
	var existing mcfgv1.MachineConfig
	err := a.client.Get(ctx, client.ObjectKey{Name: name}, &existing)
	if apierrors.IsNotFound(err) {
		// The cache may not have seen it yet.
		err = a.reader.Get(ctx, client.ObjectKey{Name: name}, &existing)
	}

	if apierrors.IsNotFound(err) {
		a.rendered.setSources(pool.Name, poolSources{})
		a.requeueAfter = conflictRetryInterval
		return nil // It was deleted: render it again.
	}

	if err != nil {
		return fmt.Errorf("reading MachineConfig %q: %w", name, err)
	}

	wanted := mcfgv1.MachineConfigPoolConfiguration{ObjectReference: configReference(name)}
	for _, c := range configs {
		wanted.Source = append(wanted.Source, configReference(c.Name))
	}

	if isSameConfiguration(&pool.Spec.Configuration, &wanted) {
		return nil
	}

	before := pool.DeepCopy()
	pool.Spec.Configuration = wanted
	if err := a.client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
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
