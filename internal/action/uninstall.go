package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Uninstall removes Mainstay from a cluster.
type Uninstall struct {
	Client   client.Client
	Progress report.Progress

	// Namespace is the namespace of the components. Empty means DefaultSystemNamespace.
	Namespace string
	// DeleteExtensions first uninstalls all extensions with their objects and deletes all
	// catalogs. Without it, Run returns an error if there are extensions.
	DeleteExtensions bool
	// DeleteCustomResources is the consent to delete the custom resources of the
	// extensions' CRDs.
	DeleteCustomResources bool
	// KeepCRDs keeps the CRDs and with them the catalogs and extensions. Nothing reconciles
	// them until Mainstay is installed again.
	KeepCRDs bool
	// Classic also removes OLM Classic. Run returns an error if it has operators, unless KeepCRDs is set.
	Classic bool
	// Wait limits the wait. Run always waits for extensions and catalogs, because their
	// controllers have to clean up. It waits for other objects only if WaitForAll is set.
	Wait       Wait
	WaitForAll bool
}

// UninstallResult is the result of an uninstallation.
type UninstallResult struct {
	// Deleted are the deleted objects.
	Deleted []*unstructured.Unstructured
	// Left are the objects that remain on the cluster.
	Left []Leftover
}

// Leftover describes objects that remain on the cluster.
type Leftover struct {
	// Objects are the kind and the names, such as `customresourcedefinitions a.example.com,
	// b.example.com`.
	Objects string
	Why     string
}

// Run removes the objects of the installation in the reverse order of Install. It returns
// the result also together with an error.
func (a *Uninstall) Run(ctx context.Context) (*UninstallResult, error) {
	installation := Installation{Namespace: a.Namespace, ProtectCustomResources: true, Console: true} // what is not there is skipped
	objects, err := installation.Manifests()
	if err != nil {
		return nil, err
	}

	if err := a.checkOperators(ctx); err != nil {
		return nil, err
	}

	access, err := a.listPullSecretAccess(ctx)
	if err != nil {
		return nil, err
	}

	objects = append(objects, access...)
	slices.Reverse(objects)
	var namespaces []string
	if a.KeepCRDs {
		objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" })
	} else if namespaces, err = a.deleteExtensionsAndCatalogs(ctx); err != nil {
		return nil, err
	}

	result := &UninstallResult{}
	if a.Classic {
		if err := (&classicRemoval{Uninstall: a, result: result}).run(ctx); err != nil {
			return result, err
		}
	}

	for _, object := range objects {
		err := a.Client.Delete(ctx, object, client.PropagationPolicy("Background"))
		switch {
		case apierrors.IsNotFound(err) || IsUnknownKind(err):
			continue
		case err != nil:
			return result, NewServerError(DescribeKindAndName(object), err)
		}
		result.Deleted = append(result.Deleted, object)
		report.OrQuiet(a.Progress).Done(DescribeKindAndName(object) + " deleted")
	}

	left, err := a.listLeftovers(ctx, namespaces)
	if err == nil && !a.Classic {
		err = a.listClassicLeftovers(ctx, result)
	}

	result.Left = append(result.Left, left...)
	if err != nil || !a.WaitForAll {
		return result, err
	}

	return result, a.Wait.Poll(ctx, fmt.Sprintf("installation in namespace %q", installation.systemNamespace()), a.Progress, func(ctx context.Context) (Outcome, error) {
		return allDeletedWaitOutcome(ctx, a.Client, result.Deleted)
	})
}

// listPullSecretAccess returns the roles and bindings that the installation added in the
// namespace of the pull secret.
func (a *Uninstall) listPullSecretAccess(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, kind := range []string{"Role", "RoleBinding"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: kind + "List"})
		if err := a.Client.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/name": pullSecretRole}); err != nil {
			return nil, NewServerError(strings.ToLower(kind)+"s", err)
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}

	return found, nil
}

// deleteExtensionsAndCatalogs deletes extensions and catalogs while their controllers are
// still running. It returns the namespaces that the extensions were installed into.
func (a *Uninstall) deleteExtensionsAndCatalogs(ctx context.Context) (namespaces []string, err error) {
	extensions, err := (&ExtensionList{Client: a.Client}).Run(ctx)
	if IsUnknownKind(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	if len(extensions) > 0 && !a.DeleteExtensions {
		var names []string
		for i := range extensions {
			names = append(names, extensions[i].Name)
		}
		return nil, &report.Error{
			Object: "extensions " + strings.Join(names, ", "),
			Err:    errors.New("they are still installed, and would be left without a controller"),
			Advice: "uninstall them with 'mainstay extension uninstall NAME', add --delete-extensions to do it now, or --keep-crds to leave them as they are",
		}
	}

	if err := a.uninstallExtensions(ctx, extensions); err != nil {
		return nil, err
	}

	for i := range extensions {
		namespaces = append(namespaces, extensions[i].Spec.Namespace)
	}

	catalogs, err := (&CatalogList{Client: a.Client}).Run(ctx)
	if err != nil {
		return nil, err
	}

	for i := range catalogs {
		remove := CatalogDelete{Client: a.Client, Progress: a.Progress, Name: catalogs[i].Name, Wait: &a.Wait}
		if err := remove.Run(ctx); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		report.OrQuiet(a.Progress).Done(describeCatalog(catalogs[i].Name) + " deleted")
	}

	return namespaces, nil
}

// uninstallExtensions uninstalls all extensions and waits until they are gone.
func (a *Uninstall) uninstallExtensions(ctx context.Context, extensions []olmv1.ClusterExtension) error {
	if len(extensions) == 0 {
		return nil
	}

	uninstall := ExtensionUninstall{Client: a.Client, Progress: a.Progress, DeleteCustomResources: a.DeleteCustomResources, Wait: &a.Wait}
	for i := range extensions {
		uninstall.Names = append(uninstall.Names, extensions[i].Name)
	}

	removals, err := uninstall.Preview(ctx)
	if err != nil {
		return err
	}

	if err := uninstall.Check(removals); err != nil {
		return &report.Error{
			Object: "extensions " + strings.Join(uninstall.Names, ", "), Err: err,
			Advice: "add --delete-custom-resources to delete them, or keep them with 'mainstay extension uninstall --keep-crds NAME' first",
		}
	}

	if err := uninstall.Run(ctx, removals); err != nil {
		return err
	}

	for _, name := range uninstall.Names {
		report.OrQuiet(a.Progress).Done(describeExtension(name) + " deleted")
	}

	return nil
}

// allDeletedWaitOutcome reports which of the objects still exist.
func allDeletedWaitOutcome(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) (Outcome, error) {
	o := Outcome{Done: true, Advice: "see what holds it with 'kubectl get -o yaml': its finalizers, or for a namespace its conditions"}
	for _, object := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		err := c.Get(ctx, client.ObjectKeyFromObject(object), live)
		switch {
		case apierrors.IsNotFound(err) || IsUnknownKind(err):
			continue
		case err != nil:
			return Outcome{}, err
		}

		detail := describeDeletion(live)
		o.Done = false
		o.Pending = DescribeKindAndName(object) + " " + detail
		o.Parts = append(o.Parts, report.Part{Name: DescribeKindAndName(object), State: report.StateCurrent, Detail: detail})
	}

	return o, nil
}

// deletionConditions are the conditions of namespaces and CRDs that say what their deletion
// is waiting for.
var deletionConditions = map[string]bool{
	string(corev1.NamespaceDeletionDiscoveryFailure): true, string(corev1.NamespaceDeletionContentFailure): true,
	string(corev1.NamespaceContentRemaining): true, string(corev1.NamespaceFinalizersRemaining): true,
	string(apiextensionsv1.Terminating): true,
}

// describeDeletion returns what the deletion of an object is waiting for according to its
// conditions and finalizers.
func describeDeletion(live *unstructured.Unstructured) string {
	var details []string
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		kind, _ := condition["type"].(string)
		message, _ := condition["message"].(string)
		if deletionConditions[kind] && condition["status"] == string(metav1.ConditionTrue) && message != "" {
			details = append(details, message)
		}
	}

	switch finalizers := live.GetFinalizers(); {
	case len(details) > 0:
		return "is being deleted: " + strings.Join(details, "; ")
	case len(finalizers) > 0:
		return fmt.Sprintf("is being deleted: waiting for finalizers %v", finalizers)
	default:
		return "is being deleted"
	}
}

// listLeftovers returns the objects that remain on the cluster. The namespaces are those of
// removed extensions.
func (a *Uninstall) listLeftovers(ctx context.Context, namespaces []string) ([]Leftover, error) {
	var left []Leftover
	addLeftover := func(kind string, names []string, why string) {
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 0 {
			left = append(left, Leftover{Objects: kind + " " + strings.Join(names, ", "), Why: why})
		}
	}

	platform, err := PlatformKinds(false)
	if err != nil {
		return nil, err
	}

	own := map[string]bool{}
	for _, kind := range []string{"clustercatalogs", "clusterextensions", "clusterobjectsets"} {
		own[kind+"."+olmv1.GroupVersion.Group] = true
	}

	isPlatform := func(name string) bool {
		return slices.ContainsFunc(platform, func(kind *unstructured.Unstructured) bool { return kind.GetName() == name })
	}
	var crds metav1.PartialObjectMetadataList
	crds.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := a.Client.List(ctx, &crds); err != nil {
		return nil, NewServerError("customresourcedefinitions", err)
	}

	var platformCRDs, ownCRDs, keptCRDs []string
	for i := range crds.Items {
		crd := &crds.Items[i]
		switch {
		case !crd.DeletionTimestamp.IsZero():
		case isPlatform(crd.Name):
			platformCRDs = append(platformCRDs, crd.Name)
		case a.KeepCRDs && own[crd.Name]:
			ownCRDs = append(ownCRDs, crd.Name)
		case crd.Labels[olmv1.LabelOwnerKind] == olmv1.ClusterExtensionKind && (a.KeepCRDs || !isControlledByExtension(crd)):
			keptCRDs = append(keptCRDs, crd.Name)
		}
	}

	const crdKind = "customresourcedefinitions"
	addLeftover(crdKind, platformCRDs, "other parts of the cluster may use them")
	addLeftover(crdKind, ownCRDs, "--keep-crds keeps them, and with them all catalogs and extensions, which nothing manages until Mainstay is installed again")
	addLeftover(crdKind, keptCRDs, "they came with extensions, and are kept with all custom resources")
	addLeftover("namespaces", namespaces, "extensions were installed into them, and they may contain other objects")

	return left, nil
}
