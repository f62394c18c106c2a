package csv

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/requirements"
	"github.com/mainstay-dev/mainstay/internal/classic/serving"
	"github.com/mainstay-dev/mainstay/internal/classic/strategy"
	"github.com/mainstay-dev/mainstay/internal/classic/webhook"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings;clusterroles;clusterrolebindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=proxies,verbs=get;list;watch

// Cluster reads properties of the API server that no object has.
type Cluster interface {
	// Version returns the version of the API server.
	Version(ctx context.Context) (string, error)
	// Kinds returns the kinds that are served in a group version; none when it is not served.
	Kinds(ctx context.Context, version schema.GroupVersion) (sets.Set[string], error)
}

// proxyKind is the kind of the cluster's proxy configuration, which only OpenShift has.
var proxyKind = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Proxy"}

// gatherFacts reads the facts that the phase needs.
func (r *Reconciler) gatherFacts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup) (*Facts, error) {
	f := &Facts{Now: r.Clock.Now(), FailForward: g.Spec.UpgradeStrategy == operatorsv1.UpgradeStrategyUnsafeFailForward}
	var siblings v1alpha1.ClusterServiceVersionList
	if err := r.Client.List(ctx, &siblings, client.InNamespace(csv.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", csv.Namespace, err)
	}

	f.Replacement = csvinfo.Replacement(csv, siblings.Items)
	var err error
	switch csv.Status.Phase {
	case v1alpha1.CSVPhasePending:
		err = r.gatherPendingFacts(ctx, csv, siblings.Items, f)
	case v1alpha1.CSVPhaseInstalling:
		err = r.gatherInstallation(ctx, csv, g, f)
	case v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVPhaseFailed:
		if f.Replacement != nil && (csv.Status.Phase == v1alpha1.CSVPhaseSucceeded || f.FailForward) {
			return f, nil // It is replaced regardless of any other fact.
		}
		f.CRDOwner = findCRDOwnerConflict(csv, siblings.Items)
		f.WebhooksErr = webhook.Validate(csv)
		if err = r.gatherRequirements(ctx, csv, siblings.Items, f); err == nil {
			err = r.gatherInstallation(ctx, csv, g, f)
		}
	case v1alpha1.CSVPhaseReplacing:
		f.LastReplacement, f.LastReplacementErr = csvinfo.LastReplacement(csv, siblings.Items)
		f.Replaced, err = r.readReplacedCSV(ctx, csv)
	}

	return f, err
}

func (r *Reconciler) gatherPendingFacts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion, f *Facts) error {
	var err error
	if f.Replaced, err = r.readReplacedCSV(ctx, csv); err != nil {
		return err
	}

	if f.Replaced != nil {
		if f.Blocked, err = UpgradeBlockedReason(ctx, r.APIReader, csv.Namespace, csv.Spec.Replaces); err != nil {
			return err
		}
	}

	f.WebhooksErr, f.CRDOwner = webhook.Validate(csv), findCRDOwnerConflict(csv, siblings)
	if err := r.gatherRequirements(ctx, csv, siblings, f); err != nil {
		return err
	}
	if len(csv.Spec.APIServiceDefinitions.Owned) == 0 {
		return nil
	}

	state, err := r.newServingServer(r.Client).Read(ctx, csv)
	if err != nil {
		return err
	}

	f.NotAdoptable = state.CheckAdoptable(r.adoptionCheck(ctx, csv))
	return nil
}

// readReplacedCSV returns the ClusterServiceVersion that csv replaces; nil when there is none. It
// reads from the API server, because with a stale cache both operators could run at the same time.
func (r *Reconciler) readReplacedCSV(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*v1alpha1.ClusterServiceVersion, error) {
	if csv.Spec.Replaces == "" || csv.Spec.Replaces == csv.Name {
		return nil, nil
	}

	found := &v1alpha1.ClusterServiceVersion{}
	key := client.ObjectKey{Namespace: csv.Namespace, Name: csv.Spec.Replaces}
	if err := r.APIReader.Get(ctx, key, found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading ClusterServiceVersion %s, which %s replaces: %w", key, csv.Name, err)
	}

	if csvinfo.IsCopied(found) {
		return nil, nil
	}

	return found, nil
}

// findCRDOwnerConflict returns the name of another ClusterServiceVersion in the namespace that owns
// one of the CRDs and is neither an earlier nor a later version of csv.
func findCRDOwnerConflict(csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion) string {
	chain := csvinfo.ReplacementChain(csv, siblings)
	for i := range siblings {
		other := &siblings[i]
		if chain.Has(other.Name) || csvinfo.IsCopied(other) {
			continue
		}
		for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
			if slices.ContainsFunc(other.Spec.CustomResourceDefinitions.Owned, func(d v1alpha1.CRDDescription) bool { return d.Name == crd.Name }) {
				return other.Name
			}
		}
	}

	return ""
}

// gatherRequirements reads the required objects and checks the requirements. It looks for rights in
// the roles that were created for this ClusterServiceVersion first. If those do not suffice, it
// looks in all roles of the namespace and the cluster.
func (r *Reconciler) gatherRequirements(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion, f *Facts) error {
	cluster := &requirements.ClusterState{
		CRDs: map[string]*apiextensionsv1.CustomResourceDefinition{}, APIServices: map[string]bool{}, Served: sets.Set[schema.GroupVersionKind]{},
		Accounts: map[string]*metav1.PartialObjectMetadata{}, Ancestors: csvinfo.Ancestors(csv, siblings),
	}
	if csv.Spec.MinKubeVersion != "" {
		cluster.ServerVersion, cluster.ServerVersionErr = r.Cluster.Version(ctx)
	}

	for _, reading := range []func(context.Context, *v1alpha1.ClusterServiceVersion, *requirements.ClusterState) error{r.readCRDs, r.readAPIs, r.readServiceAccounts} {
		if err := reading(ctx, csv, cluster); err != nil {
			return err
		}
	}

	key := client.ObjectKeyFromObject(csv)
	for _, options := range [][]client.ListOption{{client.MatchingLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name))}, nil} {
		if options == nil {
			r.sharedRights.set(key, true)
		}

		var err error
		if len(requirements.AccountNames(csv)) > 0 {
			if cluster.Policy, err = r.readRBACPolicy(ctx, csv.Namespace, options); err != nil {
				return err
			}
		}

		f.Requirements, f.RequirementsErr = requirements.Check(csv, cluster)
		if f.Requirements == nil || !f.Requirements.LacksRights {
			if options != nil {
				r.sharedRights.set(key, false)
			}
			return nil
		}
	}

	return nil
}

func (r *Reconciler) readCRDs(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, cluster *requirements.ClusterState) error {
	for _, d := range requirements.Definitions(csv) {
		found := &apiextensionsv1.CustomResourceDefinition{}
		if err := r.APIReader.Get(ctx, client.ObjectKey{Name: d.Name}, found); err == nil {
			cluster.CRDs[d.Name] = found
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", d.Name, err)
		}
	}

	return nil
}

func (r *Reconciler) readAPIs(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, cluster *requirements.ClusterState) error {
	wanted := sets.Set[schema.GroupVersionKind]{}
	for _, api := range requirements.RequiredAPIs(csv) {
		wanted.Insert(schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind})
		found := &apiregistrationv1.APIService{}
		name := csvinfo.APIServiceName(api)
		if err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, found); err == nil {
			cluster.APIServices[name] = serving.IsAvailable(found)
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading APIService %s: %w", name, err)
		}
	}

	for _, api := range csv.Spec.NativeAPIs {
		wanted.Insert(schema.GroupVersionKind(api))
	}

	for kind := range wanted {
		kinds, err := r.Cluster.Kinds(ctx, kind.GroupVersion())
		if err != nil {
			return err
		}
		if kinds.Has(kind.Kind) {
			cluster.Served.Insert(kind)
		}
	}

	return nil
}

func (r *Reconciler) readServiceAccounts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, cluster *requirements.ClusterState) error {
	for _, name := range requirements.AccountNames(csv) {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
		if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: name}, found); err == nil {
			cluster.Accounts[name] = found
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading ServiceAccount %s/%s: %w", csv.Namespace, name, err)
		}
	}

	return nil
}

// readRBACPolicy reads the roles and bindings of the namespace and of the whole cluster.
func (r *Reconciler) readRBACPolicy(ctx context.Context, namespace string, options []client.ListOption) (*rbac.Policy, error) {
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	var clusterRoles rbacv1.ClusterRoleList
	var clusterBindings rbacv1.ClusterRoleBindingList
	local := append([]client.ListOption{client.InNamespace(namespace)}, options...)
	for list, listOptions := range map[client.ObjectList][]client.ListOption{&roles: local, &bindings: local, &clusterRoles: options, &clusterBindings: options} {
		if err := r.APIReader.List(ctx, list, listOptions...); err != nil {
			return nil, fmt.Errorf("listing roles and bindings: %w", err)
		}
	}

	return &rbac.Policy{
		Roles: roles.Items, RoleBindings: bindings.Items, ClusterRoles: clusterRoles.Items, ClusterRoleBindings: clusterBindings.Items,
	}, nil
}

// gatherInstallation reads the state of the installed objects.
func (r *Reconciler) gatherInstallation(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup, f *Facts) error {
	state, err := r.newServingServer(r.Client).Read(ctx, csv)
	if err != nil {
		return err
	}

	deployments, err := r.readDeployments(ctx, csv)
	if err != nil {
		return err
	}

	live := func(name string) *appsv1.Deployment { return deployments[name] }
	adopts := r.adoptionCheck(ctx, csv)
	f.NotAdoptable, f.APIServiceIssues = state.CheckAdoptable(adopts), state.Issues(live, adopts)
	f.MustRotate, f.RotateAt = state.MustRotate(f.Now), state.RotateAt()
	proxy, err := r.readProxyEnv(ctx)
	if err != nil {
		return err
	}

	config, err := r.readSubscriptionConfig(ctx, csv)
	if err != nil {
		return err
	}

	var wanted []appsv1.Deployment
	wanted, f.DeploymentsErr = strategy.Deployments(csv, strategy.Inputs{Config: config, Proxy: proxy, CAHashes: state.CAHashes()})
	if missing := strategy.CheckServed(csv); missing != nil {
		wanted, f.DeploymentsErr = nil, missing
	}
	if wanted == nil {
		return nil
	}

	f.Health.DeploymentsErr = strategy.Health(wanted, live)
	if f.Health.WebhooksInstalled, f.Health.WebhooksErr = r.newWebhooks(r.Client).CheckAndPrune(ctx, csv, g); apierrors.IsServiceUnavailable(f.Health.WebhooksErr) {
		f.Health.UnreachableErr = f.Health.WebhooksErr
	}

	return r.gatherAPIHealth(ctx, csv, state, live, f)
}

func (r *Reconciler) gatherAPIHealth(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, state *serving.State, live func(string) *appsv1.Deployment, f *Facts) error {
	unavailable := state.Unavailable()
	f.Health.APIsInstalled = len(unavailable) == 0
	for _, api := range unavailable {
		deployment := live(api.DeploymentName)
		if deployment == nil {
			return nil
		}

		selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
		if err != nil {
			return nil //nolint:nilerr // the API server rejects invalid selectors
		}

		var pods corev1.PodList
		if err := r.APIReader.List(ctx, &pods, client.InNamespace(csv.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return fmt.Errorf("listing the pods of Deployment %s/%s: %w", csv.Namespace, deployment.Name, err)
		}
		// The pods of a new installation are young too; it waits for them anyway.
		if csv.Status.Phase == v1alpha1.CSVPhaseInstalling || !serving.IsDisruption(deployment, pods.Items, f.Now) {
			return nil
		}
	}

	if len(unavailable) > 0 {
		f.Health.Disrupted = fmt.Sprintf("APIService %s temporarily unavailable due to pod disruption", csvinfo.APIServiceName(unavailable[0]))
	}

	return nil
}

// readDeployments reads the Deployments of the install strategy, by name.
func (r *Reconciler) readDeployments(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (map[string]*appsv1.Deployment, error) {
	all := map[string]*appsv1.Deployment{}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		found := &appsv1.Deployment{}
		if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: d.Name}, found); err == nil {
			all[d.Name] = found
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading Deployment %s/%s: %w", csv.Namespace, d.Name, err)
		}
	}

	return all, nil
}

// readProxyEnv returns the environment variables for the cluster's proxy.
func (r *Reconciler) readProxyEnv(ctx context.Context) ([]corev1.EnvVar, error) {
	if !r.HasProxyKind {
		return nil, nil
	}

	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(proxyKind)
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: "cluster"}, found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Proxy cluster: %w", err)
	}

	value := func(field string) string {
		text, _, _ := unstructured.NestedString(found.Object, "status", field)
		return text
	}
	return strategy.Proxy(value("httpProxy"), value("httpsProxy"), value("noProxy")), nil
}

// adoptionCheck returns a function that reports whether csv may adopt an APIService.
func (r *Reconciler) adoptionCheck(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) func(*apiregistrationv1.APIService) bool {
	return serving.MayAdopt(csv, func(namespace, name string) v1alpha1.ClusterServiceVersionPhase {
		owner := &v1alpha1.ClusterServiceVersion{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, owner); err != nil {
			return v1alpha1.CSVPhaseUnknown
		}
		return owner.Status.Phase
	})
}
