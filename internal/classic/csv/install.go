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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/owned"
	"github.com/mainstay-dev/mainstay/internal/classic/serving"
	"github.com/mainstay-dev/mainstay/internal/classic/strategy"
	"github.com/mainstay-dev/mainstay/internal/classic/webhook"
)

// Operators may consist of Deployments in any namespace, and their roles may hold any right: olm-operator
// writes what it does not have itself, hence bind and escalate. It deletes what it made for operators that
// are gone. Which ServiceAccounts it acts as is no part of its role: see internal/classic/selfgrant.

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=list;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;clusterroles,verbs=bind;escalate

func (r *Reconciler) server(c client.Client) *serving.Server {
	return &serving.Server{Client: c, Reader: r.Live, Now: r.Clock.Now}
}

func (r *Reconciler) webhooks(c client.Client) *webhook.Webhooks {
	return &webhook.Webhooks{Client: c, Reader: r.Live}
}

// attempt installs, and says what that comes to. The status gets the times of the certificates.
func (r *Reconciler) attempt(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup) Outcome {
	as, err := r.As(ctx, g.Status.ServiceAccountRef)
	if err != nil {
		return Outcome{Err: err} // Nothing is said of the operator: who would install it is missing.
	}

	issued, err := r.install(ctx, as, csv, g)
	switch {
	case err == nil:
	case isPassing(err):
		return Outcome{Err: err}
	case apierrors.IsForbidden(err):
		return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentFailedNoRetry, "install strategy failed: "+err.Error())
	default:
		return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentFailed, "install strategy failed: "+err.Error())
	}

	if issued.Updated || csv.Status.CertsRotateAt == nil && !issued.RotateAt.IsZero() {
		now, at := metav1.NewTime(r.Clock.Now()), metav1.NewTime(issued.RotateAt)
		csv.Status.CertsLastUpdated, csv.Status.CertsRotateAt = &now, &at
	}

	return to(v1alpha1.CSVPhaseInstalling, v1alpha1.CSVReasonInstallSuccessful, "waiting for install components to report healthy")
}

// isPassing reports whether an error says nothing of what was to be installed: the API server was not
// reached, or was asked at the wrong moment.
func isPassing(err error) bool {
	// What was not there and now is, somebody else made meanwhile.
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var network net.Error
	return errors.As(err, &network)
}

// install makes everything that a ClusterServiceVersion consists of.
func (r *Reconciler) install(ctx context.Context, as client.Client, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup) (*serving.Issued, error) {
	proxy, err := r.proxy(ctx)
	if err != nil {
		return nil, err
	}

	config, err := r.config(ctx, csv)
	if err != nil {
		return nil, err
	}

	server := r.server(as)
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
		if err := r.writeDeployment(ctx, as, &wanted[i]); err != nil {
			return nil, err
		}
	}

	if err := server.EnsureAPIServices(ctx, csv, issued, r.mayAdopt(ctx, csv)); err != nil {
		return nil, err
	}
	if err := r.webhooks(as).Ensure(ctx, csv, g, func(deployment string) []byte { return issued.CAs[deployment] }); err != nil {
		return nil, err
	}

	return issued, r.deleteOrphans(ctx, as, csv)
}

// writeDeployment makes a Deployment, or makes one that is there what it is to be. What others put
// on its metadata stays.
func (r *Reconciler) writeDeployment(ctx context.Context, as client.Client, wanted *appsv1.Deployment) error {
	found := &appsv1.Deployment{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	switch {
	case apierrors.IsNotFound(err):
		err = as.Create(ctx, wanted.DeepCopy())
	case err == nil:
		found.Labels = csvinfo.With(found.Labels, wanted.Labels)
		// What a former configuration put on the Deployment, it put on the pods too.
		maps.DeleteFunc(found.Annotations, func(key, value string) bool {
			former, ok := found.Spec.Template.Annotations[key]
			return ok && former == value
		})
		if len(wanted.Annotations) > 0 {
			found.Annotations = csvinfo.With(found.Annotations, wanted.Annotations)
		}

		found.OwnerReferences = append(slices.DeleteFunc(found.OwnerReferences, func(o metav1.OwnerReference) bool {
			return o.Kind == v1alpha1.ClusterServiceVersionKind
		}), wanted.OwnerReferences...)
		found.Spec = *wanted.Spec.DeepCopy()
		err = as.Update(ctx, found)
	}

	if err != nil {
		return fmt.Errorf("deployment %s: %w", wanted.Name, err)
	}

	return nil
}

// deleteOrphans deletes Deployments that the strategy had before.
func (r *Reconciler) deleteOrphans(ctx context.Context, as client.Client, csv *v1alpha1.ClusterServiceVersion) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
	if err := r.Live.List(ctx, list, client.InNamespace(csv.Namespace), client.MatchingLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name))); err != nil {
		return fmt.Errorf("listing the Deployments of ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
	}

	for i := range list.Items {
		if !strategy.IsOrphan(csv, &list.Items[i]) {
			continue
		}
		orphan := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: csv.Namespace, Name: list.Items[i].Name}}
		err := as.Delete(ctx, orphan, client.Preconditions{UID: &list.Items[i].UID}, client.PropagationPolicy(metav1.DeletePropagationForeground), client.GracePeriodSeconds(1))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Deployment %s, which the install strategy does not have any more: %w", orphan.Name, err)
		}
	}

	return nil
}

// deleteDeployments deletes the Deployments of the strategy that were made for this
// ClusterServiceVersion: others provide its APIs.
func (r *Reconciler) deleteDeployments(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	found, err := r.deployments(ctx, csv)
	if err != nil {
		return err
	}

	for name, d := range found {
		if !csvinfo.Matches(d.Labels, csvinfo.OwnerLabels(csv.Namespace, csv.Name)) {
			continue
		}
		err := r.Client.Delete(ctx, d, client.Preconditions{UID: &d.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Deployment %s/%s: %w", csv.Namespace, name, err)
		}
	}

	return nil
}

// finalize removes what lies outside of the namespace; the rest goes with its owner.
func (r *Reconciler) finalize(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	if !slices.Contains(csv.Finalizers, csvinfo.Finalizer) {
		return nil
	}

	var siblings v1alpha1.ClusterServiceVersionList
	if err := r.Client.List(ctx, &siblings, client.InNamespace(csv.Namespace)); err != nil {
		return fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", csv.Namespace, err)
	}

	if csvinfo.Replacement(csv, siblings.Items) == nil {
		if err := r.webhooks(r.Client).ResetConversions(ctx, csv); err != nil {
			return err
		}
	}

	if err := r.webhooks(r.Client).Remove(ctx, csv); err != nil {
		return err
	}
	if err := r.server(r.Client).Remove(ctx, csv); err != nil {
		return err
	}
	if err := r.removeRoles(ctx, csv); err != nil {
		return err
	}

	before := csv.DeepCopy()
	csv.Finalizers = slices.DeleteFunc(csv.Finalizers, func(name string) bool { return name == csvinfo.Finalizer })
	err := r.Client.Patch(ctx, csv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))

	return client.IgnoreNotFound(err)
}

// removeRoles deletes the ClusterRoleBindings and ClusterRoles of a ClusterServiceVersion, and makes
// sure that they are gone.
func (r *Reconciler) removeRoles(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	of := client.ObjectKeyFromObject(csv)
	for _, kind := range []string{"ClusterRoleBinding", "ClusterRole"} {
		gvk := rbacv1.SchemeGroupVersion.WithKind(kind)
		deleted, err := owned.Delete(ctx, r.Live, r.Client, gvk, of)
		if err != nil {
			return err
		}
		if deleted == 0 {
			continue
		}

		left, err := owned.List(ctx, r.Live, gvk, of)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("waiting for %ss to delete", kind)
		}
	}

	return nil
}
