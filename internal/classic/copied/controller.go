package copied

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// Copied CSVs are created in the namespaces that operators watch, which may be all, with Roles that may contain any
// right. The event about disabled copies has a fixed name, and is deleted when copies are enabled again.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions/status,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=olmconfigs,verbs=list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=olmconfigs/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=escalate;bind

const (
	// maxConcurrentWrites limits the concurrent writes of copies of one ClusterServiceVersion.
	maxConcurrentWrites = 8
	// maxSingleReads limits how many unknown copies are read one by one. More are listed page by page.
	maxSingleReads = 5
	// lostCopyRetryInterval is how long to wait before the next check of a copy that changed unexpectedly.
	lostCopyRetryInterval = time.Second
	// pageSize is the number of copies in one page of a list. A copy may have a megabyte.
	pageSize = 20
)

// copier reconciles the copies of ClusterServiceVersions.
type copier struct {
	client  client.Client
	creator *copyCreator
	// reader reads copies from the API server without the cache.
	reader client.Reader
	// copies reads the metadata of copies from the cache.
	copies client.Reader
	// marked reads the labelled roles and bindings of operators from the cache.
	marked    client.Reader
	memory    *memory
	events    *disabledEvents
	protected sets.Set[string]
	clock     clock.PassiveClock
}

// newReconciler returns the reconciler of the copies of one ClusterServiceVersion. If it does not exist any more, all
// its copies are deleted.
func (r *copier) newReconciler() *reconcile.KeyReconciler[*facts, *copyPlan] {
	return &reconcile.KeyReconciler[*facts, *copyPlan]{
		Gather: r.gatherFacts, Decide: decideCopies, Execute: r.executePlan,
		ResyncAfter: func(_ *facts, p *copyPlan) time.Duration { return p.requeueAfter },
	}
}

// gatherFacts reads a ClusterServiceVersion, its copies, and the facts that determine the places of the copies.
func (r *copier) gatherFacts(ctx context.Context, source types.NamespacedName) (*facts, error) {
	f := &facts{key: source, source: &v1alpha1.ClusterServiceVersion{}, protected: r.protected}
	switch err := r.client.Get(ctx, source, f.source); {
	case apierrors.IsNotFound(err):
		f.source = nil
	case err != nil:
		return f, fmt.Errorf("reading ClusterServiceVersion %s: %w", source, err)
	}

	list := newCSVMetadataList()
	if err := r.copies.List(ctx, list, client.MatchingFields{sourceIndex: source.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("listing the copies of ClusterServiceVersion %s: %w", source, err)
	}

	f.copies = list.Items
	var err error
	f.group, err = membership.OnlyGroupOf(ctx, r.client, source.Namespace)
	if err != nil && !errors.Is(err, membership.ErrNone) && !errors.Is(err, membership.ErrSeveral) {
		return f, err
	}

	config := &operatorsv1.OLMConfig{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: operatorsv1.OLMConfigName}, config); client.IgnoreNotFound(err) != nil {
		return f, fmt.Errorf("reading OLMConfig %s: %w", operatorsv1.OLMConfigName, err)
	}

	f.disabled = config.CopiesDisabled()
	if f.namespaces, err = listActiveNamespaces(ctx, r.client); err != nil {
		return f, err
	}

	var csvs v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &csvs, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("listing ClusterServiceVersions: %w", err)
	}

	f.taken = namespacesWithOriginal(csvs.Items, source.Name)
	return f, nil
}

// executePlan deletes surplus copies, reports disabled ones in an event, creates and updates the wanted ones, and copies
// the roles of the operator to their namespaces.
func (r *copier) executePlan(ctx context.Context, f *facts, p *copyPlan) error {
	a := &copyRun{copier: r, source: f.source, existing: p.existing, uids: map[string]types.UID{}}
	err := errors.Join(a.deleteSurplusCopies(ctx, p.surplus), r.events.ensureEvent(ctx, f.key, f.source, f.disabled))
	if err != nil || p.wanted.Len() == 0 {
		return err
	}

	if p.requeueAfter, err = a.ensureCopies(ctx, p.wanted); err != nil {
		return err
	}
	if watchesAllNamespaces(f.source) {
		return nil
	}

	return a.copyRoles(ctx)
}

// copyRun is one reconcile of the copies of a ClusterServiceVersion.
type copyRun struct {
	*copier

	source *v1alpha1.ClusterServiceVersion
	// existing are the copies in the cache, by namespace.
	existing map[string]*metav1.PartialObjectMetadata

	mu sync.Mutex
	// uids are the UIDs of the copies that are up to date, by namespace.
	uids map[string]types.UID
	// lost is true when a copy differed from its record.
	lost bool
}

// deleteSurplusCopies deletes the given copies.
func (a *copyRun) deleteSurplusCopies(ctx context.Context, surplus []*metav1.PartialObjectMetadata) error {
	work := errgroup.Group{}
	work.SetLimit(maxConcurrentWrites)
	for _, found := range surplus {
		work.Go(func() error {
			err := a.client.Delete(ctx, newCSVMetadata(found.Namespace, found.Name), client.Preconditions{UID: &found.UID})
			if reconcile.IgnoreStale(err) != nil {
				return fmt.Errorf("deleting the copy of ClusterServiceVersion %s in namespace %s: %w", found.Name, found.Namespace, err)
			}
			return nil
		})
	}

	return work.Wait()
}

// ensureCopies creates and updates copies. requeueAfter is the time until the next check of copies that are not in the cache
// yet; zero when all are.
func (a *copyRun) ensureCopies(ctx context.Context, namespaces sets.Set[string]) (requeueAfter time.Duration, err error) {
	wanted, err := newCopyContent(a.source)
	if err != nil {
		return 0, err
	}
	if err := a.readUnknownCopies(ctx, namespaces); err != nil {
		return 0, err
	}

	work := errgroup.Group{}
	work.SetLimit(maxConcurrentWrites)
	for namespace := range namespaces {
		key := types.NamespacedName{Namespace: namespace, Name: a.source.Name}
		found := a.existing[namespace]
		known, ok := a.lookUpRecord(key, found)
		switch {
		case found != nil && !found.DeletionTimestamp.IsZero():
			continue // Its deletion triggers a reconcile.
		case ok && known.objectHash == wanted.objectHash && known.statusHash == wanted.statusHash:
			a.markUpToDate(namespace, known.uid)
			if found == nil {
				requeueAfter = cacheSyncTimeout
			}
			continue
		}

		work.Go(func() error {
			if err := a.ensureCopy(ctx, key, wanted, found != nil, known, ok); err != nil {
				return fmt.Errorf("copying ClusterServiceVersion %s/%s to namespace %s: %w", a.source.Namespace, a.source.Name, namespace, err)
			}
			return nil
		})
	}

	err = work.Wait()
	if a.lost {
		requeueAfter = lostCopyRetryInterval
	}

	return requeueAfter, err
}

// lookUpRecord returns the record of a copy. ok is false when the copy must be read.
func (a *copyRun) lookUpRecord(key types.NamespacedName, found *metav1.PartialObjectMetadata) (record, bool) {
	if found == nil {
		return a.memory.lookUp(key, "", "", a.clock.Now())
	}
	return a.memory.lookUp(key, found.UID, found.ResourceVersion, a.clock.Now())
}

// readUnknownCopies lists the copies if many of them have no current record, as after a restart.
func (a *copyRun) readUnknownCopies(ctx context.Context, namespaces sets.Set[string]) error {
	unknown := 0
	for namespace := range namespaces {
		if found := a.existing[namespace]; found != nil {
			if _, ok := a.lookUpRecord(client.ObjectKeyFromObject(found), found); !ok {
				unknown++
			}
		}
	}

	if unknown <= maxSingleReads {
		return nil
	}

	list := &v1alpha1.ClusterServiceVersionList{}
	for {
		err := a.reader.List(ctx, list, client.MatchingLabels{csvinfo.LabelCopiedFrom: a.source.Namespace},
			client.MatchingFields{metav1.ObjectNameField: a.source.Name}, client.Limit(pageSize), client.Continue(list.Continue))
		if err != nil {
			return fmt.Errorf("reading the copies of ClusterServiceVersion %s/%s: %w", a.source.Namespace, a.source.Name, err)
		}

		for i := range list.Items {
			if _, err := a.memory.addObject(&list.Items[i], a.clock.Now()); err != nil {
				return err
			}
		}

		if list.Continue == "" {
			return nil
		}

		list = &v1alpha1.ClusterServiceVersionList{ListMeta: metav1.ListMeta{Continue: list.Continue}}
	}
}

// ensureCopy creates or updates one copy.
func (a *copyRun) ensureCopy(ctx context.Context, key types.NamespacedName, wanted *copyContent, exists bool, known record, isKnown bool) (err error) {
	copied := &v1alpha1.ClusterServiceVersion{}
	copied.Namespace, copied.Name = key.Namespace, key.Name
	switch {
	case isKnown:
	case !exists:
		var created *metav1.PartialObjectMetadata
		created, err = a.creator.createCopy(ctx, key.Namespace, wanted.objectText)
		if err == nil {
			known, isKnown = a.memory.add(created, wanted.objectHash, contentHash{}, a.clock.Now()), true
			break
		}
		if !apierrors.IsAlreadyExists(err) {
			return a.forgetCopy(key, err)
		}
	}

	if !isKnown {
		if err := a.reader.Get(ctx, key, copied); err != nil {
			return a.forgetCopy(key, err)
		}
		if copied.Labels[csvinfo.LabelCopiedFrom] != a.source.Namespace {
			return nil // It is not a copy of this source. Its deletion triggers a reconcile.
		}
		if known, err = a.memory.addObject(copied, a.clock.Now()); err != nil {
			return err
		}
	}

	copied.UID, copied.ResourceVersion = known.uid, known.version
	if known.objectHash != wanted.objectHash {
		wanted.applyTo(copied)
		if err := a.client.Update(ctx, copied); err != nil {
			return a.forgetLostCopy(key, err)
		}
		known = a.memory.add(copied, wanted.objectHash, known.statusHash, a.clock.Now())
	}

	if known.statusHash != wanted.statusHash {
		patch, err := wanted.newStatusPatch(known.version)
		if err != nil {
			return err
		}
		// Neither the request nor the response has the spec, which is large.
		patched := newCSVMetadata(key.Namespace, key.Name)
		if err := a.client.Status().Patch(ctx, patched, patch); err != nil {
			return a.forgetLostCopy(key, err)
		}
		known = a.memory.add(patched, wanted.objectHash, wanted.statusHash, a.clock.Now())
	}

	a.markUpToDate(key.Namespace, known.uid)
	return nil
}

// markUpToDate records that the copy in a namespace is up to date.
func (a *copyRun) markUpToDate(namespace string, uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uids[namespace] = uid
}

// forgetLostCopy forgets a copy that differs from its record, and has it checked again. It may have been deleted before
// the record was made, so that no event would trigger a reconcile.
func (a *copyRun) forgetLostCopy(key types.NamespacedName, err error) error {
	if reconcile.IgnoreStale(err) == nil {
		a.mu.Lock()
		a.lost = true
		a.mu.Unlock()
	}
	return a.forgetCopy(key, err)
}

// forgetCopy forgets a copy that could not be written. It returns nil if another client wrote or deleted it, or if its
// namespace is terminating: an event about that triggers a reconcile.
func (a *copyRun) forgetCopy(key types.NamespacedName, err error) error {
	a.memory.forget(key, "")
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return reconcile.IgnoreStale(err)
}

// listActiveNamespaces returns the namespaces that are not terminating.
func listActiveNamespaces(ctx context.Context, c client.Reader) (sets.Set[string], error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}

	names := sets.Set[string]{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			names.Insert(list.Items[i].Name)
		}
	}

	return names, nil
}
