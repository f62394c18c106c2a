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
	"github.com/mainstay-dev/mainstay/internal/classic/condition"
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

// Cluster answers what no object tells.
type Cluster interface {
	// Version is the version of the API server.
	Version(ctx context.Context) (string, error)
	// Kinds are the kinds that are served of a version of a group; none when that is not served.
	Kinds(ctx context.Context, version schema.GroupVersion) (sets.Set[string], error)
}

// proxyKind tells of the cluster's proxy, on clusters that have it.
var proxyKind = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Proxy"}

// gather reads what the phase asks for.
func (r *Reconciler) gather(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup) (*Facts, error) {
	f := &Facts{Now: r.Clock.Now(), FailForward: g.Spec.UpgradeStrategy == operatorsv1.UpgradeStrategyUnsafeFailForward}
	var siblings v1alpha1.ClusterServiceVersionList
	if err := r.Client.List(ctx, &siblings, client.InNamespace(csv.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", csv.Namespace, err)
	}

	f.Replacement = csvinfo.Replacement(csv, siblings.Items)
	var err error
	switch csv.Status.Phase {
	case v1alpha1.CSVPhasePending:
		err = r.gatherPending(ctx, csv, siblings.Items, f)
	case v1alpha1.CSVPhaseInstalling:
		err = r.gatherInstalled(ctx, csv, g, f)
	case v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVPhaseFailed:
		if f.Replacement != nil && (csv.Status.Phase == v1alpha1.CSVPhaseSucceeded || f.FailForward) {
			return f, nil // It is replaced, whatever else there is.
		}
		f.CRDOwner = otherOwner(csv, siblings.Items)
		f.Webhooks = webhook.Validate(csv)
		if err = r.gatherRequirements(ctx, csv, siblings.Items, f); err == nil {
			err = r.gatherInstalled(ctx, csv, g, f)
		}
	case v1alpha1.CSVPhaseReplacing:
		f.Last, f.NextErr = csvinfo.Last(csv, siblings.Items)
		f.Replaced, err = r.replaced(ctx, csv)
	}

	return f, err
}

func (r *Reconciler) gatherPending(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion, f *Facts) error {
	var err error
	if f.Replaced, err = r.replaced(ctx, csv); err != nil {
		return err
	}

	if f.Replaced != nil {
		if f.Blocked, err = condition.Gate(ctx, r.Live, csv.Namespace, csv.Spec.Replaces); err != nil {
			return err
		}
	}

	f.Webhooks, f.CRDOwner = webhook.Validate(csv), otherOwner(csv, siblings)
	if err := r.gatherRequirements(ctx, csv, siblings, f); err != nil {
		return err
	}
	if len(csv.Spec.APIServiceDefinitions.Owned) == 0 {
		return nil
	}

	state, err := r.server(r.Client).Read(ctx, csv)
	if err != nil {
		return err
	}

	f.NotAdoptable = state.Adoptable(r.mayAdopt(ctx, csv))
	return nil
}

// replaced reads the one that is replaced from the API server: a cache that is behind could have
// the two run side by side.
func (r *Reconciler) replaced(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*v1alpha1.ClusterServiceVersion, error) {
	if csv.Spec.Replaces == "" || csv.Spec.Replaces == csv.Name {
		return nil, nil
	}

	found := &v1alpha1.ClusterServiceVersion{}
	key := client.ObjectKey{Namespace: csv.Namespace, Name: csv.Spec.Replaces}
	if err := r.Live.Get(ctx, key, found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading ClusterServiceVersion %s, which %s replaces: %w", key, csv.Name, err)
	}

	if csvinfo.IsCopied(found) {
		return nil, nil
	}

	return found, nil
}

// otherOwner returns another ClusterServiceVersion of the namespace that owns one of the CRDs, and is
// neither a former nor a later version of this one.
func otherOwner(csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion) string {
	chain := csvinfo.Chain(csv, siblings)
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

// gatherRequirements reads what the requirements are about, and judges them. Rights are looked for
// first in the roles that were made for this ClusterServiceVersion, and in all of the cluster only
// when those do not suffice.
func (r *Reconciler) gatherRequirements(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, siblings []v1alpha1.ClusterServiceVersion, f *Facts) error {
	world := &requirements.World{
		CRDs: map[string]*apiextensionsv1.CustomResourceDefinition{}, APIServices: map[string]bool{}, Served: sets.Set[schema.GroupVersionKind]{},
		Accounts: map[string]*metav1.PartialObjectMetadata{}, Ancestors: csvinfo.Ancestors(csv, siblings),
	}
	if csv.Spec.MinKubeVersion != "" {
		world.ServerVersion, world.ServerVersionErr = r.Cluster.Version(ctx)
	}

	for _, reading := range []func(context.Context, *v1alpha1.ClusterServiceVersion, *requirements.World) error{r.readDefinitions, r.readAPIs, r.readAccounts} {
		if err := reading(ctx, csv, world); err != nil {
			return err
		}
	}

	key := client.ObjectKeyFromObject(csv)
	for _, options := range [][]client.ListOption{{client.MatchingLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name))}, nil} {
		if options == nil {
			r.borrowers.set(key, true)
		}

		var err error
		if len(requirements.AccountNames(csv)) > 0 {
			if world.Policy, err = r.policy(ctx, csv.Namespace, options); err != nil {
				return err
			}
		}

		f.Requirements, f.RequirementsErr = requirements.Check(csv, world)
		if f.Requirements == nil || !f.Requirements.LacksRights {
			if options != nil {
				r.borrowers.set(key, false)
			}
			return nil
		}
	}

	return nil
}

func (r *Reconciler) readDefinitions(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, world *requirements.World) error {
	for _, d := range requirements.Definitions(csv) {
		found := &apiextensionsv1.CustomResourceDefinition{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: d.Name}, found); err == nil {
			world.CRDs[d.Name] = found
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", d.Name, err)
		}
	}

	return nil
}

func (r *Reconciler) readAPIs(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, world *requirements.World) error {
	wanted := sets.Set[schema.GroupVersionKind]{}
	for _, api := range requirements.RequiredAPIs(csv) {
		wanted.Insert(schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind})
		found := &apiregistrationv1.APIService{}
		name := csvinfo.APIServiceName(api)
		if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, found); err == nil {
			world.APIServices[name] = serving.IsAvailable(found)
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
			world.Served.Insert(kind)
		}
	}

	return nil
}

func (r *Reconciler) readAccounts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, world *requirements.World) error {
	for _, name := range requirements.AccountNames(csv) {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: name}, found); err == nil {
			world.Accounts[name] = found
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading ServiceAccount %s/%s: %w", csv.Namespace, name, err)
		}
	}

	return nil
}

// policy reads roles and bindings: those of the namespace and of the whole cluster.
func (r *Reconciler) policy(ctx context.Context, namespace string, options []client.ListOption) (*rbac.Policy, error) {
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	var clusterRoles rbacv1.ClusterRoleList
	var clusterBindings rbacv1.ClusterRoleBindingList
	local := append([]client.ListOption{client.InNamespace(namespace)}, options...)
	for list, how := range map[client.ObjectList][]client.ListOption{&roles: local, &bindings: local, &clusterRoles: options, &clusterBindings: options} {
		if err := r.Live.List(ctx, list, how...); err != nil {
			return nil, fmt.Errorf("listing roles and bindings: %w", err)
		}
	}

	return &rbac.Policy{
		Roles: roles.Items, RoleBindings: bindings.Items, ClusterRoles: clusterRoles.Items, ClusterRoleBindings: clusterBindings.Items,
	}, nil
}

// gatherInstalled reads what was installed.
func (r *Reconciler) gatherInstalled(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup, f *Facts) error {
	state, err := r.server(r.Client).Read(ctx, csv)
	if err != nil {
		return err
	}

	deployments, err := r.deployments(ctx, csv)
	if err != nil {
		return err
	}

	live := func(name string) *appsv1.Deployment { return deployments[name] }
	adopts := r.mayAdopt(ctx, csv)
	f.NotAdoptable, f.Issues = state.Adoptable(adopts), state.Issues(live, adopts)
	f.MustRotate, f.RotateAt = state.MustRotate(f.Now), state.RotateAt()
	proxy, err := r.proxy(ctx)
	if err != nil {
		return err
	}

	config, err := r.config(ctx, csv)
	if err != nil {
		return err
	}

	var wanted []appsv1.Deployment
	wanted, f.Wanted = strategy.Deployments(csv, strategy.Inputs{Config: config, Proxy: proxy, CAHashes: state.CAHashes()})
	if missing := strategy.CheckServed(csv); missing != nil {
		wanted, f.Wanted = nil, missing
	}
	if wanted == nil {
		return nil
	}

	f.Health.Deployments = strategy.Health(wanted, live)
	if f.Health.WebhooksInstalled, f.Health.Webhooks = r.webhooks(r.Client).Check(ctx, csv, g); apierrors.IsServiceUnavailable(f.Health.Webhooks) {
		f.Health.Unreachable = f.Health.Webhooks
	}

	return r.gatherAPIs(ctx, csv, state, live, f)
}

func (r *Reconciler) gatherAPIs(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, state *serving.State, live func(string) *appsv1.Deployment, f *Facts) error {
	unavailable := state.Unavailable()
	f.Health.APIsInstalled = len(unavailable) == 0
	for _, api := range unavailable {
		deployment := live(api.DeploymentName)
		if deployment == nil {
			return nil
		}

		selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
		if err != nil {
			return nil //nolint:nilerr // the API server accepts none that cannot be read
		}

		var pods corev1.PodList
		if err := r.Live.List(ctx, &pods, client.InNamespace(csv.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return fmt.Errorf("listing the pods of Deployment %s/%s: %w", csv.Namespace, deployment.Name, err)
		}
		// A new installation has young pods as well; it waits for them anyway.
		if csv.Status.Phase == v1alpha1.CSVPhaseInstalling || !serving.IsDisruption(deployment, pods.Items, f.Now) {
			return nil
		}
	}

	if len(unavailable) > 0 {
		f.Health.Disrupted = fmt.Sprintf("APIService %s temporarily unavailable due to pod disruption", csvinfo.APIServiceName(unavailable[0]))
	}

	return nil
}

// deployments reads the Deployments of the strategy, by name.
func (r *Reconciler) deployments(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (map[string]*appsv1.Deployment, error) {
	all := map[string]*appsv1.Deployment{}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		found := &appsv1.Deployment{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: d.Name}, found); err == nil {
			all[d.Name] = found
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading Deployment %s/%s: %w", csv.Namespace, d.Name, err)
		}
	}

	return all, nil
}

// proxy returns the variables of the cluster's proxy.
func (r *Reconciler) proxy(ctx context.Context) ([]corev1.EnvVar, error) {
	if !r.Proxied {
		return nil, nil
	}

	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(proxyKind)
	if err := r.Live.Get(ctx, client.ObjectKey{Name: "cluster"}, found); apierrors.IsNotFound(err) {
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

// mayAdopt reports whether an APIService may be taken.
func (r *Reconciler) mayAdopt(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) func(*apiregistrationv1.APIService) bool {
	return serving.MayAdopt(csv, func(namespace, name string) v1alpha1.ClusterServiceVersionPhase {
		owner := &v1alpha1.ClusterServiceVersion{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, owner); err != nil {
			return v1alpha1.CSVPhaseUnknown
		}
		return owner.Status.Phase
	})
}
