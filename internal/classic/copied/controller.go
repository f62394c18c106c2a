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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
)

// Copies go to the namespaces that operators watch, which may be all, with Roles that hold whatever right the
// operator asks for. An event with a name of its own is taken back when copies are enabled again.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions/status,verbs=update
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=olmconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=olmconfigs/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=escalate;bind

const (
	// writers is how many copies of one ClusterServiceVersion are written at once.
	writers = 8
	// few is how many unknown copies are read one by one. More are read page by page.
	few = 5
	// lostPause is how long to wait before a copy that was lost from sight is looked for.
	lostPause = time.Second
	// page is how many copies are read at once. One may have a megabyte.
	page = 20
)

// copier keeps the copies of ClusterServiceVersions.
type copier struct {
	client client.Client
	// reader reads copies from the API server.
	reader client.Reader
	// copies has the metadata of copies.
	copies client.Reader
	// marked has the roles of operators, and their bindings.
	marked    client.Reader
	memory    *memory
	notices   *notices
	protected sets.Set[string]
	clock     clock.PassiveClock
}

// Reconcile brings the copies of one ClusterServiceVersion up to date, or deletes them when it is gone.
func (r *copier) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	switch err := r.client.Get(ctx, req.NamespacedName, csv); {
	case apierrors.IsNotFound(err):
		csv = nil
	case err != nil:
		return ctrl.Result{}, err
	}

	list := metadataList()
	if err := r.copies.List(ctx, list, client.MatchingFields{sourceIndex: req.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the copies of ClusterServiceVersion %s: %w", req, err)
	}

	f, err := r.facts(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}

	a := &attempt{copier: r, source: csv, there: map[string]*metav1.PartialObjectMetadata{}, uids: map[string]types.UID{}}
	p := placesOf(csv, f)
	var surplus []*metav1.PartialObjectMetadata
	for i := range list.Items {
		found := &list.Items[i]
		if p.stays(found.Namespace) && found.Annotations[csvinfo.AnnotationOperatorNamespace] != "" {
			a.there[found.Namespace] = found
		} else if found.DeletionTimestamp.IsZero() {
			surplus = append(surplus, found)
		}
	}

	err = errors.Join(a.delete(ctx, surplus), r.notices.settle(ctx, req.NamespacedName, csv, f.disabled))
	if err != nil || p.make.Len() == 0 {
		return ctrl.Result{}, err
	}

	again, err := a.write(ctx, p.make)
	if err == nil && !isGlobal(csv) {
		err = a.copyRoles(ctx)
	}
	if err != nil {
		return ctrl.Result{}, err
	}

	return ctrl.Result{RequeueAfter: again}, nil
}

// facts gathers what decides where the copies of a ClusterServiceVersion are.
func (r *copier) facts(ctx context.Context, source types.NamespacedName) (facts, error) {
	f := facts{protected: r.protected}
	var err error
	f.group, err = group.Of(ctx, r.client, source.Namespace)
	if err != nil && !errors.Is(err, group.ErrNone) && !errors.Is(err, group.ErrSeveral) {
		return f, err
	}

	config := &operatorsv1.OLMConfig{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: operatorsv1.OLMConfigName}, config); client.IgnoreNotFound(err) != nil {
		return f, err
	}

	f.disabled = config.CopiesDisabled()
	if f.namespaces, err = activeNamespaces(ctx, r.client); err != nil {
		return f, err
	}

	var csvs v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &csvs, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("listing ClusterServiceVersions: %w", err)
	}

	f.taken = homes(csvs.Items, source.Name)
	return f, nil
}

// attempt is one pass over the copies of a ClusterServiceVersion.
type attempt struct {
	*copier

	source *v1alpha1.ClusterServiceVersion
	// there are the copies that the watch has shown, by their namespaces.
	there map[string]*metav1.PartialObjectMetadata

	mu sync.Mutex
	// uids are those of the copies that are as they should be, by their namespaces.
	uids map[string]types.UID
	// lost tells that a copy was not what it was remembered to be.
	lost bool
}

// delete deletes copies that are not to be there.
func (a *attempt) delete(ctx context.Context, surplus []*metav1.PartialObjectMetadata) error {
	work := errgroup.Group{}
	work.SetLimit(writers)
	for _, found := range surplus {
		work.Go(func() error {
			err := a.client.Delete(ctx, metadataOf(found.Namespace, found.Name), client.Preconditions{UID: &found.UID})
			if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				return fmt.Errorf("deleting the copy of ClusterServiceVersion %s in namespace %s: %w", found.Name, found.Namespace, err)
			}
			return nil
		})
	}

	return work.Wait()
}

// write makes and updates copies. again is when to look again whether one that was made is there.
func (a *attempt) write(ctx context.Context, namespaces sets.Set[string]) (again time.Duration, err error) {
	wanted, err := contentOf(a.source)
	if err != nil {
		return 0, err
	}
	if err := a.readMany(ctx, namespaces); err != nil {
		return 0, err
	}

	work := errgroup.Group{}
	work.SetLimit(writers)
	for namespace := range namespaces {
		key := types.NamespacedName{Namespace: namespace, Name: a.source.Name}
		found := a.there[namespace]
		known, ok := a.known(key, found)
		switch {
		case found != nil && !found.DeletionTimestamp.IsZero():
			continue // Its end wakes the controller.
		case ok && known.rest == wanted.rest && known.state == wanted.state:
			a.isRight(namespace, known.uid)
			if found == nil {
				again = trusted
			}
			continue
		}

		work.Go(func() error {
			if err := a.bring(ctx, key, wanted, found != nil, known, ok); err != nil {
				return fmt.Errorf("copying ClusterServiceVersion %s/%s to namespace %s: %w", a.source.Namespace, a.source.Name, namespace, err)
			}
			return nil
		})
	}

	err = work.Wait()
	if a.lost {
		again = lostPause
	}

	return again, err
}

// known returns what is known of a copy.
func (a *attempt) known(key types.NamespacedName, found *metav1.PartialObjectMetadata) (record, bool) {
	if found == nil {
		return a.memory.of(key, "", "", a.clock.Now())
	}
	return a.memory.of(key, found.UID, found.ResourceVersion, a.clock.Now())
}

// readMany reads the copies of which too little is known, when there are many: a program that has just
// begun knows none.
func (a *attempt) readMany(ctx context.Context, namespaces sets.Set[string]) error {
	unknown := 0
	for namespace := range namespaces {
		if found := a.there[namespace]; found != nil {
			if _, ok := a.known(client.ObjectKeyFromObject(found), found); !ok {
				unknown++
			}
		}
	}

	if unknown <= few {
		return nil
	}

	list := &v1alpha1.ClusterServiceVersionList{}
	for {
		err := a.reader.List(ctx, list, client.MatchingLabels{csvinfo.LabelCopiedFrom: a.source.Namespace},
			client.MatchingFields{metav1.ObjectNameField: a.source.Name}, client.Limit(page), client.Continue(list.Continue))
		if err != nil {
			return fmt.Errorf("reading the copies of ClusterServiceVersion %s/%s: %w", a.source.Namespace, a.source.Name, err)
		}

		for i := range list.Items {
			if _, err := a.memory.read(&list.Items[i], a.clock.Now()); err != nil {
				return err
			}
		}

		if list.Continue == "" {
			return nil
		}

		list = &v1alpha1.ClusterServiceVersionList{ListMeta: metav1.ListMeta{Continue: list.Continue}}
	}
}

// bring makes or updates one copy.
func (a *attempt) bring(ctx context.Context, key types.NamespacedName, wanted *content, isThere bool, known record, isKnown bool) (err error) {
	copied := &v1alpha1.ClusterServiceVersion{}
	copied.Namespace, copied.Name = key.Namespace, key.Name
	switch {
	case isKnown:
	case !isThere:
		wanted.fill(copied)
		err = a.client.Create(ctx, copied)
		if err == nil {
			known, isKnown = a.memory.note(copied, wanted.rest, "", a.clock.Now()), true
			break
		}
		if !apierrors.IsAlreadyExists(err) {
			return a.gone(key, err)
		}
		copied.Namespace, copied.Name = key.Namespace, key.Name
	}

	if !isKnown {
		if err := a.reader.Get(ctx, key, copied); err != nil {
			return a.gone(key, err)
		}
		if copied.Labels[csvinfo.LabelCopiedFrom] != a.source.Namespace {
			return nil // It is somebody else's. Its end wakes the controller.
		}
		if known, err = a.memory.read(copied, a.clock.Now()); err != nil {
			return err
		}
	}

	copied.UID, copied.ResourceVersion = known.uid, known.version
	if known.rest != wanted.rest {
		wanted.fill(copied)
		if err := a.client.Update(ctx, copied); err != nil {
			return a.stale(key, err)
		}
		known = a.memory.note(copied, wanted.rest, known.state, a.clock.Now())
	}

	if known.state != wanted.state {
		wanted.fill(copied)
		if err := a.client.Status().Update(ctx, copied); err != nil {
			return a.stale(key, err)
		}
		known = a.memory.note(copied, wanted.rest, wanted.state, a.clock.Now())
	}

	a.isRight(key.Namespace, known.uid)
	return nil
}

// isRight notes that the copy in a namespace is as it should be.
func (a *attempt) isRight(namespace string, uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uids[namespace] = uid
}

// stale forgets a copy that is not what it is remembered to be. It may be gone since before it was last
// remembered, so that nothing wakes the controller for it any more: it is looked for again.
func (a *attempt) stale(key types.NamespacedName, err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		a.mu.Lock()
		a.lost = true
		a.mu.Unlock()
	}
	return a.gone(key, err)
}

// gone forgets a copy that could not be written. Somebody else wrote or deleted it, or its namespace
// ends: what became of it wakes the controller, and is no error.
func (a *attempt) gone(key types.NamespacedName, err error) error {
	a.memory.forget(key, "")
	isEnding := apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || isEnding {
		return nil
	}
	return err
}

// activeNamespaces are the namespaces that exist and do not end.
func activeNamespaces(ctx context.Context, c client.Reader) (sets.Set[string], error) {
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
