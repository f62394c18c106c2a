package csv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/requirements"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/serving"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings;clusterroles;clusterrolebindings,verbs=get;list;watch

// Cluster reads properties of the API server that no object has.
type Cluster interface {
	// Version returns the version of the API server.
	Version(ctx context.Context) (string, error)
	// Kinds returns the kinds that are served in a group version; none when it is not served.
	Kinds(ctx context.Context, version schema.GroupVersion) (sets.Set[string], error)
}

// requirementReader reads what a ClusterServiceVersion requires.
type requirementReader struct {
	// cached reads the metadata of service accounts, and crds CRDs, from caches whose changes enqueue ClusterServiceVersions.
	cached, crds client.Reader
	// marked reads the labelled roles and bindings of operators from the cache.
	marked client.Reader
	// live reads from the API server without the cache, so that decisions see the latest writes.
	live    client.Reader
	cluster Cluster
	// shared has the ClusterServiceVersions that use rights not created for them.
	shared *sharedRights
	clock  clock.PassiveClock

	mu sync.Mutex
	// version is the version of the API server, which was read at versionReadAt.
	version       string
	versionReadAt time.Time
}

// serverVersionInterval is how long the version of the API server is not read again.
const serverVersionInterval = time.Minute

// gatherRequirements reads the required objects and checks the requirements. It looks for rights in
// the roles that were created for this ClusterServiceVersion first. If those do not suffice, it
// looks in all roles of the namespace and the cluster.
func (r *requirementReader) gatherRequirements(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion, f *Facts) error {
	cluster := &requirements.ClusterState{
		CRDs: map[string]*apiextensionsv1.CustomResourceDefinition{}, APIServices: map[string]bool{}, Served: sets.Set[schema.GroupVersionKind]{},
		Accounts: map[string]*metav1.PartialObjectMetadata{}, Ancestors: csvinfo.Ancestors(csv, siblings),
	}
	if csv.Spec.MinKubeVersion != "" {
		cluster.ServerVersion, cluster.ServerVersionErr = r.readServerVersion(ctx)
	}

	if err := r.readServiceAccounts(ctx, csv, cluster); err != nil {
		return err
	}
	if wait := remainingAccountWait(csv, cluster, f.Now); wait > 0 {
		return reconcile.Wait("", wait, errors.New("waiting for service accounts"))
	}
	if err := errors.Join(r.readCRDs(ctx, csv, cluster), r.readAPIs(ctx, csv, cluster)); err != nil {
		return err
	}

	return r.checkRights(ctx, csv, cluster, f)
}

// checkRights reads roles and bindings and checks the requirements. Those of the ClusterServiceVersion come from the
// cache. Only what the API server has decides that rights are missing, unless the account of one that is not installed yet
// is so new that its rights are probably being created.
func (r *requirementReader) checkRights(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, cluster *requirements.ClusterState, f *Facts) error {
	key := client.ObjectKeyFromObject(csv)
	hasAccounts := len(requirements.AccountNames(csv)) > 0
	var err error
	if hasAccounts {
		ownedByCSV := client.MatchingLabelsSelector{Selector: csvinfo.SelectOwned(csv.Namespace, csv.Name)}
		if cluster.Policy, err = readRBACPolicy(ctx, r.marked, csv.Namespace, ownedByCSV, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}

	f.Requirements, f.RequirementsErr = requirements.Check(csv, cluster)
	if f.Requirements == nil || !f.Requirements.LacksRights {
		r.shared.set(key, false)
		return nil
	}

	r.shared.set(key, true)
	if isWaitingForRights(csv, cluster, f.Now) {
		f.AreRightsNew = true
		return nil
	}
	if hasAccounts {
		if cluster.Policy, err = readRBACPolicy(ctx, r.live, csv.Namespace); err != nil {
			return err
		}
	}

	f.Requirements, f.RequirementsErr = requirements.Check(csv, cluster)
	return nil
}

// rightsSettleTime is how long after the creation of a ClusterServiceVersion its service accounts are created, and how long
// after that of a service account its rights are. An InstallPlan creates them one after the other. The API server records the time of a creation in seconds.
const rightsSettleTime = 2 * time.Second

// isWaitingForRights reports whether the rights of a ClusterServiceVersion that is not installed yet are probably being
// created, because it has a new service account.
func isWaitingForRights(csv *v1alpha1.ClusterServiceVersion, cluster *requirements.ClusterState, now time.Time) bool {
	if !isBeforeInstallation(csv) {
		return false
	}
	for _, account := range cluster.Accounts {
		if age := now.Sub(account.CreationTimestamp.Time); age >= 0 && age < rightsSettleTime {
			return true
		}
	}
	return false
}

// remainingAccountWait returns how long a new ClusterServiceVersion without a service account that it requires is not
// checked. Its InstallPlan is probably still creating what it requires. The event of a service account triggers the next
// check.
func remainingAccountWait(csv *v1alpha1.ClusterServiceVersion, cluster *requirements.ClusterState, now time.Time) time.Duration {
	if csv.Status.Phase != v1alpha1.CSVPhaseNone || len(cluster.Accounts) == len(requirements.AccountNames(csv)) {
		return 0
	}
	age := now.Sub(csv.CreationTimestamp.Time)
	if age < 0 {
		return 0
	}
	return max(0, rightsSettleTime-age)
}

// isBeforeInstallation reports whether a ClusterServiceVersion is new or waits for its requirements.
func isBeforeInstallation(csv *v1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Phase == v1alpha1.CSVPhaseNone || csv.Status.Phase == v1alpha1.CSVPhasePending
}

// readServerVersion returns the version of the API server. No event reports its change.
func (r *requirementReader) readServerVersion(ctx context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if age := now.Sub(r.versionReadAt); r.version != "" && age >= 0 && age < serverVersionInterval {
		return r.version, nil
	}

	version, err := r.cluster.Version(ctx)
	if err == nil {
		r.version, r.versionReadAt = version, now
	}
	return version, err
}

// readCRDs reads the required CRDs. One that is not in the cache does not exist: its event triggers the next check.
func (r *requirementReader) readCRDs(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, cluster *requirements.ClusterState) error {
	for _, d := range requirements.Definitions(csv) {
		found := &crdinfo.Definition{}
		if err := r.crds.Get(ctx, client.ObjectKey{Name: d.Name}, found); err == nil {
			cluster.CRDs[d.Name] = found.CRD()
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", d.Name, err)
		}
	}

	return nil
}

func (r *requirementReader) readAPIs(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, cluster *requirements.ClusterState) error {
	wanted := sets.Set[schema.GroupVersionKind]{}
	for _, api := range requirements.RequiredAPIs(csv) {
		wanted.Insert(schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind})
		found := &apiregistrationv1.APIService{}
		name := csvinfo.APIServiceName(api)
		if err := r.live.Get(ctx, client.ObjectKey{Name: name}, found); err == nil {
			cluster.APIServices[name] = serving.IsAvailable(found)
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading APIService %s: %w", name, err)
		}
	}

	for _, api := range csv.Spec.NativeAPIs {
		wanted.Insert(schema.GroupVersionKind(api))
	}

	for kind := range wanted {
		kinds, err := r.cluster.Kinds(ctx, kind.GroupVersion())
		if err != nil {
			return err
		}
		if kinds.Has(kind.Kind) {
			cluster.Served.Insert(kind)
		}
	}

	return nil
}

func (r *requirementReader) readServiceAccounts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, cluster *requirements.ClusterState) error {
	for _, name := range requirements.AccountNames(csv) {
		found := newPartialMetadata(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
		if err := r.cached.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: name}, found); err == nil {
			cluster.Accounts[name] = found
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading ServiceAccount %s/%s: %w", csv.Namespace, name, err)
		}
	}

	return nil
}

// readRBACPolicy reads the roles and bindings of the namespace and of the whole cluster.
func readRBACPolicy(ctx context.Context, reader client.Reader, namespace string, options ...client.ListOption) (*rbac.Policy, error) {
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	var clusterRoles rbacv1.ClusterRoleList
	var clusterBindings rbacv1.ClusterRoleBindingList
	local := append([]client.ListOption{client.InNamespace(namespace)}, options...)
	for list, listOptions := range map[client.ObjectList][]client.ListOption{&roles: local, &bindings: local, &clusterRoles: options, &clusterBindings: options} {
		if err := reader.List(ctx, list, listOptions...); err != nil {
			return nil, fmt.Errorf("listing roles and bindings: %w", err)
		}
	}

	return &rbac.Policy{
		Roles: roles.Items, RoleBindings: bindings.Items, ClusterRoles: clusterRoles.Items, ClusterRoleBindings: clusterBindings.Items,
	}, nil
}
