package csv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/owned"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/serving"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/strategy"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// Operators may have Deployments in any namespace, and their roles may contain any right. olm-operator
// grants rights that it does not have itself, hence bind and escalate. It deletes what it created for
// operators that are gone. Its role has no right to impersonate: see internal/classic/selfgrant.

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=list;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;clusterroles,verbs=bind;escalate

// installer creates and deletes the objects of ClusterServiceVersions.
type installer struct {
	client       client.Client
	installation *installationReader
	// accounts are the clients of the service accounts of groups.
	accounts *impersonation.Clients
}

// attemptInstall installs the operator and returns the outcome, with the times of new certificates.
func (r *installer) attemptInstall(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup) (Outcome, *certificateTimes) {
	writer, err := r.clientForGroup(ctx, g)
	if err != nil {
		return Outcome{Err: err}, nil // The service account is missing, which is not the operator's fault.
	}

	issued, err := r.installOperator(ctx, writer, csv, g)
	switch {
	case err == nil:
	case isTransientError(err):
		return Outcome{Err: err}, nil
	case apierrors.IsForbidden(err):
		return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentFailedNoRetry, "install strategy failed: "+err.Error()), nil
	default:
		return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentFailed, "install strategy failed: "+err.Error()), nil
	}

	var times *certificateTimes
	if issued.Updated || csv.Status.CertsRotateAt == nil && !issued.RotateAt.IsZero() {
		times = &certificateTimes{updated: r.installation.clock.Now(), rotateAt: issued.RotateAt}
	}

	return transitionTo(v1alpha1.CSVPhaseInstalling, v1alpha1.CSVReasonInstallSuccessful, "waiting for install components to report healthy"), times
}

// clientForGroup returns a client that impersonates the service account of a group, or olm-operator's own client if the
// group names none.
func (r *installer) clientForGroup(ctx context.Context, g *operatorsv1.OperatorGroup) (client.Client, error) {
	account, err := membership.ServiceAccountOf(g)
	switch {
	case err != nil:
		return nil, err
	case account == nil:
		return r.client, nil // It reads from the cache.
	default:
		return r.accounts.For(ctx, impersonation.AccountOf(account))
	}
}

// isTransientError reports whether an error is independent of the installed objects: the API server
// was not reached, or the request has to be repeated.
func isTransientError(err error) bool {
	if reconcile.IsStale(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var network net.Error
	return errors.As(err, &network)
}

// installOperator creates or updates all objects of a ClusterServiceVersion: certificates,
// Deployments, APIServices and webhooks. It deletes Deployments that are no longer part of it.
func (r *installer) installOperator(ctx context.Context, writer client.Client, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup) (*serving.Issued, error) {
	proxy, err := r.installation.readProxyEnv(ctx)
	if err != nil {
		return nil, err
	}

	config, err := r.installation.readSubscriptionConfig(ctx, csv)
	if err != nil {
		return nil, err
	}

	server := r.installation.newServingServer(writer)
	if config != nil {
		server.Annotations = config.Annotations
	}

	issued, err := server.Ensure(ctx, csv)
	if err != nil {
		return nil, err
	}

	hashes := map[string]string{}
	for name, ca := range issued.CAs {
		hashes[name] = serving.CAHash(ca)
	}

	wanted, err := strategy.Deployments(csv, strategy.Inputs{Config: config, Proxy: proxy, CAHashes: hashes})
	if err != nil {
		return nil, err
	}

	for i := range wanted {
		if err := r.createOrUpdateDeployment(ctx, writer, &wanted[i]); err != nil {
			return nil, err
		}
	}

	if err := server.EnsureAPIServices(ctx, csv, issued, r.installation.adoptionCheck(ctx, csv)); err != nil {
		return nil, err
	}
	if err := r.installation.newServingServer(r.client).RemoveLegacy(ctx, csv); err != nil {
		return nil, err
	}
	if err := r.installation.newWebhooks(writer).Ensure(ctx, csv, g, func(deployment string) []byte { return issued.CAs[deployment] }); err != nil {
		return nil, err
	}

	return issued, r.deleteOrphanedDeployments(ctx, writer, csv)
}

// createOrUpdateDeployment creates a Deployment or updates the existing one. It keeps labels and
// annotations that others have set. A Deployment of an operator with another selector, which cannot be
// changed, is deleted and created.
func (r *installer) createOrUpdateDeployment(ctx context.Context, writer client.Client, wanted *appsv1.Deployment) error {
	key := client.ObjectKeyFromObject(wanted)
	created := wanted.DeepCopy()
	// The cache decides only which request comes first.
	if err := r.installation.cached.Get(ctx, key, &appsv1.Deployment{}); apierrors.IsNotFound(err) {
		if err := writer.Create(ctx, created); !apierrors.IsAlreadyExists(err) {
			return r.recordDeployment(created, err)
		}
	}

	found := &appsv1.Deployment{}
	err := r.installation.live.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err):
		return r.recordDeployment(created, writer.Create(ctx, created))
	case err == nil && mustRecreate(found, wanted):
		if err = client.IgnoreNotFound(writer.Delete(ctx, found, client.Preconditions{UID: &found.UID})); err == nil {
			return r.recordDeployment(created, writer.Create(ctx, created))
		}
	case err == nil:
		found.Labels = csvinfo.MergeLabels(found.Labels, wanted.Labels)
		// An annotation of an earlier configuration is on the Deployment and on its pod template.
		maps.DeleteFunc(found.Annotations, func(key, value string) bool {
			former, ok := found.Spec.Template.Annotations[key]
			return ok && former == value
		})
		if len(wanted.Annotations) > 0 {
			found.Annotations = csvinfo.MergeLabels(found.Annotations, wanted.Annotations)
		}

		found.OwnerReferences = append(slices.DeleteFunc(found.OwnerReferences, func(o metav1.OwnerReference) bool {
			return o.Kind == v1alpha1.ClusterServiceVersionKind
		}), wanted.OwnerReferences...)
		found.Spec = *wanted.Spec.DeepCopy()
		return r.recordDeployment(found, writer.Update(ctx, found))
	}
	return r.recordDeployment(wanted, err)
}

// recordDeployment records that a Deployment was written, or returns why it was not.
func (r *installer) recordDeployment(written *appsv1.Deployment, err error) error {
	if err != nil {
		return fmt.Errorf("deployment %s: %w", written.Name, err)
	}
	r.installation.written.Add(written)
	return nil
}

// mustRecreate reports whether a Deployment that was created for a ClusterServiceVersion of the
// namespace has another selector than the wanted one.
func mustRecreate(found, wanted *appsv1.Deployment) bool {
	namespace, _, ok := csvinfo.OwnedByLabels(found.Labels)
	return ok && namespace == wanted.Namespace && !equality.Semantic.DeepEqual(found.Spec.Selector, wanted.Spec.Selector)
}

// deleteOrphanedDeployments deletes Deployments that are no longer in the install strategy.
func (r *installer) deleteOrphanedDeployments(ctx context.Context, writer client.Client, csv *v1alpha1.ClusterServiceVersion) error {
	list := &appsv1.DeploymentList{}
	if err := r.installation.cached.List(ctx, list, client.InNamespace(csv.Namespace), client.MatchingLabelsSelector{Selector: csvinfo.SelectOwned(csv.Namespace, csv.Name)}); err != nil {
		return fmt.Errorf("listing the Deployments of ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
	}

	for i := range list.Items {
		if !strategy.IsOrphan(csv, &list.Items[i]) {
			continue
		}
		orphan := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: csv.Namespace, Name: list.Items[i].Name}}
		err := writer.Delete(ctx, orphan, client.Preconditions{UID: &list.Items[i].UID}, client.PropagationPolicy(metav1.DeletePropagationForeground), client.GracePeriodSeconds(1))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Deployment %s, which is no longer in the install strategy: %w", orphan.Name, err)
		}
	}

	return nil
}

// deleteOwnedDeployments deletes the Deployments of the install strategy that were created for this
// ClusterServiceVersion.
func (r *installer) deleteOwnedDeployments(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	for _, spec := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		found := newPartialMetadata(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		err := r.installation.live.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: spec.Name}, found)
		if err == nil && csvinfo.HasLabels(found.Labels, csvinfo.OwnerLabels(csv.Namespace, csv.Name)) {
			err = r.client.Delete(ctx, found, client.Preconditions{UID: &found.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Deployment %s/%s: %w", csv.Namespace, spec.Name, err)
		}
	}

	return nil
}

// removeOutsideObjects deletes the objects outside of the namespace. The garbage collector deletes the other objects by
// their owner references.
func (r *installer) removeOutsideObjects(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	var siblings v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &siblings, client.InNamespace(csv.Namespace)); err != nil {
		return fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", csv.Namespace, err)
	}

	webhooks := r.installation.newWebhooks(r.client)
	if csvinfo.Replacement(csv, siblings.Items) == nil {
		if err := webhooks.ResetConversions(ctx, csv); err != nil {
			return err
		}
	}
	if err := webhooks.Remove(ctx, csv); err != nil {
		return err
	}
	if err := r.installation.newServingServer(r.client).Remove(ctx, csv); err != nil {
		return err
	}

	return r.deleteClusterRBAC(ctx, csv)
}

// deleteClusterRBAC deletes the ClusterRoleBindings and ClusterRoles of a ClusterServiceVersion. It
// returns an error while some of them still exist.
func (r *installer) deleteClusterRBAC(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	key := client.ObjectKeyFromObject(csv)
	for _, kind := range []string{"ClusterRoleBinding", "ClusterRole"} {
		gvk := rbacv1.SchemeGroupVersion.WithKind(kind)
		deleted, err := owned.Delete(ctx, r.installation.live, r.client, gvk, key)
		if err != nil {
			return err
		}
		if deleted == 0 {
			continue
		}

		left, err := owned.List(ctx, r.installation.live, gvk, key)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("waiting for %ss to delete", kind)
		}
	}

	return nil
}
