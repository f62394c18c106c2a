package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// gatherer reads the facts about one Subscription.
type gatherer struct {
	client   client.Client
	catalogs Catalogs
	bundles  Bundles
}

// gather reads all facts. It writes nothing.
func (g *gatherer) gather(ctx context.Context, key client.ObjectKey, options plan.Options) (*plan.Facts, error) {
	f := &plan.Facts{Subscription: &v1alpha1.Subscription{}}
	if err := g.client.Get(ctx, key, f.Subscription); err != nil {
		return nil, newServerError("subscription "+key.String(), err)
	}

	steps := []func(context.Context, *plan.Facts) error{g.readClassic, g.readGroupBindings, g.readExtensions, g.readBundle, g.readLiveObjects, g.readOwnedObjects}
	if options.ServiceAccount != "" {
		steps = append(steps, func(ctx context.Context, f *plan.Facts) error { return g.readRights(ctx, f, options.ServiceAccount) })
	}
	for _, read := range steps {
		if err := read(ctx, f); err != nil {
			return nil, newServerError("subscription "+key.String(), err)
		}
	}

	return f, nil
}

// getOptional reads an object. It returns false if the object does not exist.
func getOptional(ctx context.Context, c client.Reader, key client.ObjectKey, object client.Object) (bool, error) {
	err := c.Get(ctx, key, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// readClassic reads the objects of OLM Classic.
func (g *gatherer) readClassic(ctx context.Context, f *plan.Facts) error {
	var subscriptions v1alpha1.SubscriptionList
	var csvs v1alpha1.ClusterServiceVersionList
	var groups operatorsv1.OperatorGroupList
	var plans v1alpha1.InstallPlanList
	namespace := client.InNamespace(f.Subscription.Namespace)
	err := errors.Join(g.client.List(ctx, &subscriptions), g.client.List(ctx, &csvs), g.client.List(ctx, &groups, namespace), g.client.List(ctx, &plans, namespace))
	if err != nil {
		return err
	}

	f.Subscriptions, f.OperatorGroups, f.InstallPlans = subscriptions.Items, groups.Items, plans.Items
	for i := range csvs.Items {
		csv := &csvs.Items[i]
		isInstalled := csv.Name == f.Subscription.Status.InstalledCSV
		switch {
		case csvinfo.IsCopied(csv):
			if isInstalled && csv.Labels[csvinfo.LabelCopiedFrom] == f.Subscription.Namespace {
				f.CopiedCSVs = append(f.CopiedCSVs, csv.Namespace+"/"+csv.Name)
			}
			continue
		case isInstalled && csv.Namespace == f.Subscription.Namespace:
			f.CSV = csv
		}
		f.CSVs = append(f.CSVs, *csv)
	}

	source := &v1alpha1.CatalogSource{}
	key := client.ObjectKey{Namespace: f.Subscription.Spec.CatalogSourceNamespace, Name: f.Subscription.Spec.CatalogSource}
	if ok, err := getOptional(ctx, g.client, key, source); err != nil {
		return err
	} else if ok {
		f.CatalogSource = source
	}

	condition := &operatorsv2.OperatorCondition{}
	key = client.ObjectKey{Namespace: f.Subscription.Namespace, Name: f.Subscription.Status.InstalledCSV}
	if f.CSV == nil {
		return nil
	}
	if ok, err := getOptional(ctx, g.client, key, condition); err != nil {
		return err
	} else if ok {
		f.Condition = condition
	}

	return nil
}

// readGroupBindings reads the bindings to the ClusterRoles of the OperatorGroups. They lead to warnings only, so that a user who
// may not read them can migrate.
func (g *gatherer) readGroupBindings(ctx context.Context, f *plan.Facts) error {
	roles, err := g.listGroupRoles(ctx, f.OperatorGroups)
	if err == nil && len(roles) > 0 {
		f.GroupBindings, err = g.listBindings(ctx, roles)
	}

	if apierrors.IsForbidden(err) {
		f.GroupBindingsErr = err
		return nil
	}
	return err
}

// listGroupRoles returns the names of the ClusterRoles of OperatorGroups.
func (g *gatherer) listGroupRoles(ctx context.Context, groups []operatorsv1.OperatorGroup) (map[string]bool, error) {
	names := map[string]bool{}
	for i := range groups {
		roles := &metav1.PartialObjectMetadataList{}
		roles.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleList"))
		err := g.client.List(ctx, roles, client.MatchingLabels{
			csvinfo.LabelOwner: groups[i].Name, csvinfo.LabelOwnerNamespace: groups[i].Namespace, csvinfo.LabelOwnerKind: operatorsv1.OperatorGroupKind,
		})
		if err != nil {
			return nil, err
		}
		for i := range roles.Items {
			names[roles.Items[i].Name] = true
		}
	}

	return names, nil
}

// listBindings returns the bindings to ClusterRoles.
func (g *gatherer) listBindings(ctx context.Context, roles map[string]bool) ([]plan.GroupBinding, error) {
	var namespaced rbacv1.RoleBindingList
	if err := g.client.List(ctx, &namespaced); err != nil {
		return nil, err
	}
	var global rbacv1.ClusterRoleBindingList
	if err := g.client.List(ctx, &global); err != nil {
		return nil, err
	}

	var found []plan.GroupBinding
	for i := range namespaced.Items {
		if b := &namespaced.Items[i]; b.RoleRef.Kind == "ClusterRole" && roles[b.RoleRef.Name] {
			found = append(found, plan.GroupBinding{Kind: "RoleBinding", Namespace: b.Namespace, Name: b.Name, Role: b.RoleRef.Name})
		}
	}
	for i := range global.Items {
		if b := &global.Items[i]; roles[b.RoleRef.Name] {
			found = append(found, plan.GroupBinding{Kind: "ClusterRoleBinding", Name: b.Name, Role: b.RoleRef.Name})
		}
	}

	return found, nil
}

// readExtensions reads the objects of OLM v1.
func (g *gatherer) readExtensions(ctx context.Context, f *plan.Facts) error {
	var extensions olmv1.ClusterExtensionList
	var sets olmv1.ClusterObjectSetList
	if err := errors.Join(g.client.List(ctx, &extensions), g.client.List(ctx, &sets)); err != nil {
		return err
	}
	f.Extensions, f.Revisions = extensions.Items, sets.Items
	return nil
}

// readBundle reads the installed bundle from the best catalog that contains it.
func (g *gatherer) readBundle(ctx context.Context, f *plan.Facts) error {
	if f.CSV == nil {
		return nil
	}

	var err error
	f.Offers, err = g.catalogs.Offers(ctx, f.Subscription.Spec.Package, f.CSV.Name)
	if err != nil || len(f.Offers) == 0 {
		return err
	}

	f.Bundle, f.BundleError = g.bundles.Open(ctx, f.Offers[0].Image)
	if f.BundleError == nil {
		return g.chooseIssuer(ctx, f)
	}
	f.Bundle = nil
	return nil
}

// chooseIssuer sets the issuer of the serving certificates that the extension will have.
func (g *gatherer) chooseIssuer(ctx context.Context, f *plan.Facts) error {
	f.Issuer = g.detectIssuer(f.Bundle)
	keeps, err := g.canKeepCertificates(ctx, f.CSV)
	if keeps {
		f.Issuer = render.IssuerClassic
	}
	return err
}

// certManagerGroup is the API group of cert-manager.
const certManagerGroup = "cert-manager.io"

// detectIssuer returns the issuer that operator-controller uses for the bundle: cert-manager, if the
// cluster serves it and the bundle is not cert-manager itself.
func (g *gatherer) detectIssuer(b *bundle.Bundle) render.Issuer {
	for _, crd := range b.CRDs {
		if group, _, _ := unstructured.NestedString(crd.Object, "spec", "group"); group == certManagerGroup {
			return render.IssuerBuiltIn
		}
	}
	if _, err := g.client.RESTMapper().RESTMapping(schema.GroupKind{Group: certManagerGroup, Kind: "Certificate"}, "v1"); err == nil {
		return render.IssuerCertManager
	}
	return render.IssuerBuiltIn
}

// readLiveObjects reads the objects that have the keys of rendered objects.
func (g *gatherer) readLiveObjects(ctx context.Context, f *plan.Facts) error {
	f.Live = map[apply.Key]*unstructured.Unstructured{}
	for _, rendered := range plan.Rendered(f) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(rendered.GroupVersionKind())
		ok, err := getOptional(ctx, g.client, client.ObjectKeyFromObject(&rendered), live)
		if err != nil {
			return err
		}
		if ok {
			f.Live[apply.KeyOf(&rendered)] = live
		}
	}
	return nil
}

// ownedKinds are the kinds of objects that OLM Classic creates for a CSV, and whether they are
// namespaced. Objects of other kinds are found by the rendered bundle.
var ownedKinds = []struct {
	kind       schema.GroupVersionKind
	namespaced bool
}{
	{rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), false},
	{rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), false},
	{schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}, false},
	{schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}, false},
	{rbacv1.SchemeGroupVersion.WithKind("Role"), true},
	{rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), true},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, true},
	{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), true},
	{corev1.SchemeGroupVersion.WithKind("Service"), true},
	{corev1.SchemeGroupVersion.WithKind("ConfigMap"), true},
	{corev1.SchemeGroupVersion.WithKind("Secret"), true},
	{operatorsv2.GroupVersion.WithKind(operatorsv2.OperatorConditionKind), true},
}

// readOwnedObjects reads the metadata of the objects that belong to the CSV.
func (g *gatherer) readOwnedObjects(ctx context.Context, f *plan.Facts) error {
	if f.CSV == nil {
		return nil
	}

	for _, owned := range ownedKinds {
		in := []string{""}
		if owned.namespaced {
			in = listNamespaces(f)
		}
		for _, namespace := range in {
			if err := g.readOwnedKind(ctx, f, owned.kind, namespace); err != nil {
				return err
			}
		}
	}

	return nil
}

// listNamespaces returns the namespaces in which OLM Classic creates objects for the CSV.
func listNamespaces(f *plan.Facts) []string {
	namespaces := []string{f.CSV.Namespace}
	for _, group := range f.OperatorGroups {
		for _, target := range group.Status.Namespaces {
			if target != "" && !slices.Contains(namespaces, target) {
				namespaces = append(namespaces, target)
			}
		}
	}
	if len(csvinfo.Endpoints(f.CSV)) > 0 {
		namespaces = append(namespaces, authNamespace)
	}
	return namespaces
}

// authNamespace contains the bindings by which API servers read the authorities of clients.
const authNamespace = "kube-system"

// isAuthReader reports whether an object has the name of the binding that OLM Classic creates in
// authNamespace for a Deployment with webhooks or APIs. Not every OLM Classic marks its owner.
func isAuthReader(object metav1.Object, csv *v1alpha1.ClusterServiceVersion) bool {
	return object.GetNamespace() == authNamespace && object.GetLabels()[csvinfo.LabelManaged] == "true" &&
		slices.ContainsFunc(csvinfo.Endpoints(csv), func(e csvinfo.Endpoint) bool {
			return object.GetName() == csvinfo.ServiceName(e.Deployment.Name)+"-auth-reader"
		})
}

// readOwnedKind reads the metadata of the objects of a kind that belong to the CSV.
func (g *gatherer) readOwnedKind(ctx context.Context, f *plan.Facts, kind schema.GroupVersionKind, namespace string) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := g.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if belongsToOperator(&list.Items[i], f) {
			f.Owned = append(f.Owned, newReference(kind, &list.Items[i]))
		}
	}
	return nil
}

// belongsToOperator reports whether OLM Classic created an object for the CSV, for one of its
// copies, or for its OperatorCondition.
func belongsToOperator(object metav1.Object, f *plan.Facts) bool {
	if csvinfo.HasLabels(object.GetLabels(), csvinfo.OwnerLabels(f.CSV.Namespace, f.CSV.Name)) {
		return true
	}
	if isAuthReader(object, f.CSV) {
		return true
	}
	if object.GetLabels()[csvinfo.LabelCopiedFrom] == f.CSV.Namespace && object.GetLabels()[csvinfo.LabelOwner] == f.CSV.Name {
		return true
	}
	return slices.ContainsFunc(object.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		switch r.Kind {
		case v1alpha1.ClusterServiceVersionKind:
			return r.UID == f.CSV.UID
		case operatorsv2.OperatorConditionKind:
			return f.Condition != nil && r.UID == f.Condition.UID
		}
		return false
	})
}

func newReference(kind schema.GroupVersionKind, object metav1.Object) unstructured.Unstructured {
	var u unstructured.Unstructured
	u.SetGroupVersionKind(kind)
	u.SetNamespace(object.GetNamespace())
	u.SetName(object.GetName())
	u.SetUID(object.GetUID())
	return u
}

// readRights reads the roles and bindings of the cluster, and whether a service account exists.
func (g *gatherer) readRights(ctx context.Context, f *plan.Facts, serviceAccount string) error {
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	var clusterRoles rbacv1.ClusterRoleList
	var clusterBindings rbacv1.ClusterRoleBindingList
	err := errors.Join(g.client.List(ctx, &roles), g.client.List(ctx, &bindings), g.client.List(ctx, &clusterRoles), g.client.List(ctx, &clusterBindings))
	if err != nil {
		return fmt.Errorf("reading the rights of service account %s: %w", serviceAccount, err)
	}

	f.Policy = &rbac.Policy{Roles: roles.Items, ClusterRoles: clusterRoles.Items, RoleBindings: bindings.Items, ClusterRoleBindings: clusterBindings.Items}
	f.HasServiceAccount, err = getOptional(ctx, g.client, client.ObjectKey{Namespace: f.Subscription.Namespace, Name: serviceAccount}, &corev1.ServiceAccount{})
	return err
}
