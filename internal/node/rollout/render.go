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

// memory is what is known of the MachineConfigs of each pool, by its name.
type memory struct {
	mu    sync.Mutex
	pools map[string]*sources
}

// sources are the MachineConfigs of a pool.
type sources struct {
	// versions reports whether they have changed.
	versions string
	// since is when they became as they are.
	since time.Time
	// name is the configuration that was rendered of them, err why none could be. Both are unset
	// before it was tried.
	name string
	err  error
}

// of returns what is known of a pool.
func (m *memory) of(pool string) sources {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.pools[pool]; known != nil {
		return *known
	}
	return sources{}
}

func (m *memory) put(pool string, s sources) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pools[pool] = &s
}

// name returns the configuration that was rendered for a pool, empty for none.
func (m *memory) name(pool string) string { return m.of(pool).name }

// render makes the configuration of the pool and names it in its spec. A configuration that
// cannot be made leaves the pool at the last one.
func (a *attempt) render(ctx context.Context, pool *mcfgv1.MachineConfigPool) error {
	configs, err := a.selected(ctx, pool)
	if a.renderError = err; a.renderError != nil {
		return nil //nolint:nilerr // a condition reports it, and nodes go on to the last configuration
	}

	known, now := a.rendered.of(pool.Name), a.Clock.Now()
	if versions := versionsOf(pool, configs); known.versions != versions {
		known = sources{versions: versions, since: now}
		a.rendered.put(pool.Name, known)
	}

	if known.name == "" && known.err == nil {
		if left := a.Settle - now.Sub(known.since); left > 0 {
			a.again = left
			return nil
		}

		known.name, known.err = a.make(ctx, pool, configs)
		if known.err != nil && !isContent(known.err) {
			a.renderError = known.err
			return known.err // It is tried again.
		}

		a.rendered.put(pool.Name, known)
		select {
		case a.News <- event.GenericEvent{Object: pool}:
		default:
		}
	}

	if a.renderError = known.err; a.renderError != nil {
		return nil //nolint:nilerr // the same
	}

	return a.point(ctx, pool, known.name, configs)
}

// selected returns the MachineConfigs that the pool selects.
func (a *attempt) selected(ctx context.Context, pool *mcfgv1.MachineConfigPool) ([]*mcfgv1.MachineConfig, error) {
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

func versionsOf(pool *mcfgv1.MachineConfigPool, configs []*mcfgv1.MachineConfig) string {
	var b strings.Builder
	b.WriteString(string(pool.UID))
	for _, c := range configs {
		b.WriteString(" " + string(c.UID) + "/" + strconv.FormatInt(c.Generation, 10) + "/" + c.Labels[mcfgv1.LabelRole])
	}
	return b.String()
}

// contentError is an error that only another MachineConfig mends.
type contentError struct{ error }

func (e contentError) Unwrap() error { return e.error }

func isContent(err error) bool {
	_, ok := err.(contentError) //nolint:errorlint // it is never wrapped
	return ok
}

// make renders the configuration of the pool, and creates it where it is not there yet.
func (a *attempt) make(ctx context.Context, pool *mcfgv1.MachineConfigPool, configs []*mcfgv1.MachineConfig) (string, error) {
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

// checkExisting makes sure that a rendered configuration is what its name stands for.
func (a *attempt) checkExisting(ctx context.Context, name string) error {
	var existing mcfgv1.MachineConfig
	if err := a.client.Get(ctx, client.ObjectKey{Name: name}, &existing); err != nil {
		return fmt.Errorf("reading MachineConfig %q: %w", name, err)
	}
	if err := config.CheckName(&existing); err != nil {
		return fmt.Errorf("%w; delete it, and it is made anew", err)
	}
	return nil
}

// point names the configuration in the spec of the pool.
func (a *attempt) point(ctx context.Context, pool *mcfgv1.MachineConfigPool, name string, configs []*mcfgv1.MachineConfig) error {
	var existing mcfgv1.MachineConfig
	err := a.client.Get(ctx, client.ObjectKey{Name: name}, &existing)
	if apierrors.IsNotFound(err) {
		// The cache may not have seen it yet.
		err = a.reader.Get(ctx, client.ObjectKey{Name: name}, &existing)
	}

	if apierrors.IsNotFound(err) {
		a.rendered.put(pool.Name, sources{})
		a.again = conflictPause
		return nil // Somebody has deleted it: it is made anew.
	}

	if err != nil {
		return fmt.Errorf("reading MachineConfig %q: %w", name, err)
	}

	wanted := mcfgv1.MachineConfigPoolConfiguration{ObjectReference: reference(name)}
	for _, c := range configs {
		wanted.Source = append(wanted.Source, reference(c.Name))
	}

	if sameConfiguration(&pool.Spec.Configuration, &wanted) {
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

func reference(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: mcfgv1.GroupVersion.String(), Kind: mcfgv1.MachineConfigKind, Name: name}
}

func sameConfiguration(a, b *mcfgv1.MachineConfigPoolConfiguration) bool {
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
