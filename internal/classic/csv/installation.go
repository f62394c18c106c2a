package csv

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/serving"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/strategy"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/webhook"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=config.openshift.io,resources=proxies,verbs=get;list;watch

// proxyKind is the kind of the cluster's proxy configuration, which only OpenShift has.
var proxyKind = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Proxy"}

// installationReader reads the installed objects of ClusterServiceVersions and the configuration that they depend on.
type installationReader struct {
	client client.Client
	// cached reads the Deployments that OLM created from the cache.
	cached client.Reader
	// live reads from the API server without the cache, so that decisions see the latest writes.
	live  client.Reader
	clock clock.PassiveClock
	// written are the last writes of Deployments.
	written reconcile.WrittenVersions
	// hasProxyKind and hasSubscriptionKind are true when the cluster serves these kinds.
	hasProxyKind, hasSubscriptionKind bool
}

func (r *installationReader) newServingServer(c client.Client) *serving.Server {
	return &serving.Server{Client: c, Reader: r.live, Now: r.clock.Now}
}

func (r *installationReader) newWebhooks(c client.Client) *webhook.Webhooks {
	return &webhook.Webhooks{Client: c, Reader: r.live}
}

// gatherInstallation reads the state of the installed objects.
func (r *installationReader) gatherInstallation(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup, f *Facts) error {
	state, err := r.newServingServer(r.client).Read(ctx, csv)
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
	if f.Health.WebhooksInstalled, f.Health.WebhooksErr = r.newWebhooks(r.client).CheckAndPrune(ctx, csv, g); apierrors.IsServiceUnavailable(f.Health.WebhooksErr) {
		f.Health.UnreachableErr = f.Health.WebhooksErr
	}

	return r.gatherAPIHealth(ctx, csv, state, live, f)
}

func (r *installationReader) gatherAPIHealth(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, state *serving.State, live func(string) *appsv1.Deployment, f *Facts) error {
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
		if err := r.live.List(ctx, &pods, client.InNamespace(csv.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
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
func (r *installationReader) readDeployments(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (map[string]*appsv1.Deployment, error) {
	all := map[string]*appsv1.Deployment{}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		found, err := r.readDeployment(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: d.Name})
		switch {
		case err == nil:
			all[d.Name] = found
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading Deployment %s/%s: %w", csv.Namespace, d.Name, err)
		}
	}

	return all, nil
}

// readDeployment returns a Deployment from the cache, or from the API server if the cache does not have it or its last write.
func (r *installationReader) readDeployment(ctx context.Context, key client.ObjectKey) (*appsv1.Deployment, error) {
	cached := &appsv1.Deployment{}
	if err := r.cached.Get(ctx, key, cached); err == nil && r.written.CheckOutdated(cached) == nil {
		return cached, nil
	}

	found := &appsv1.Deployment{}
	return found, r.live.Get(ctx, key, found)
}

// readProxyEnv returns the environment variables for the cluster's proxy.
func (r *installationReader) readProxyEnv(ctx context.Context) ([]corev1.EnvVar, error) {
	if !r.hasProxyKind {
		return nil, nil
	}

	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(proxyKind)
	if err := r.live.Get(ctx, client.ObjectKey{Name: "cluster"}, found); apierrors.IsNotFound(err) {
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
func (r *installationReader) adoptionCheck(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) func(*apiregistrationv1.APIService) bool {
	return serving.MayAdopt(csv, func(namespace, name string) v1alpha1.ClusterServiceVersionPhase {
		owner := &v1alpha1.ClusterServiceVersion{}
		if err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, owner); err != nil {
			return v1alpha1.CSVPhaseUnknown
		}
		return owner.Status.Phase
	})
}

// readSubscriptionConfig returns the Subscription's configuration for the Deployments of a
// ClusterServiceVersion; nil when there is none.
func (r *installationReader) readSubscriptionConfig(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*v1alpha1.SubscriptionConfig, error) {
	if !r.hasSubscriptionKind {
		return nil, nil
	}

	var list v1alpha1.SubscriptionList
	if err := r.client.List(ctx, &list, client.InNamespace(csv.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the Subscriptions of namespace %s: %w", csv.Namespace, err)
	}
	return Config(csv.Name, list.Items), nil
}
