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

	// Namespace of the components. Empty means DefaultSystemNamespace.
	Namespace string
	// DeleteExtensions uninstalls every extension, with all its objects, and removes
	// every catalog first. Otherwise Run refuses to begin while there are extensions.
	DeleteExtensions bool
	// DeleteCustomResources consents to the deletion of the custom resources of the
	// extensions' CRDs.
	DeleteCustomResources bool
	// KeepCRDs leaves the CRDs, and with them the catalogs and extensions, as they are:
	// nothing manages them until Mainstay is installed again.
	KeepCRDs bool
	// Wait says how long is waited: for extensions and catalogs always, as their
	// controllers must clean up before they go; for the rest only with WaitForAll.
	Wait       Wait
	WaitForAll bool
}

// Uninstalled is what an uninstallation deleted, and what it left.
type Uninstalled struct {
	// Deleted are the objects that were there.
	Deleted []*unstructured.Unstructured
	// Left are the objects that stay on the cluster.
	Left []Leftover
}

// Leftover is what stays on the cluster, and why.
type Leftover struct {
	// Objects names them, as in `customresourcedefinitions a.example.com, b.example.com`.
	Objects string
	Why     string
}

// Run removes the installation, in the reverse order of Install. It returns what it did also
// beside an error.
func (a *Uninstall) Run(ctx context.Context) (*Uninstalled, error) {
	installation := Installation{Namespace: a.Namespace, ProtectCustomResources: true}
	objects, err := installation.Manifests()
	if err != nil {
		return nil, err
	}

	access, err := a.pullSecretAccess(ctx)
	if err != nil {
		return nil, err
	}

	objects = append(objects, access...)
	slices.Reverse(objects)
	var namespaces []string
	if a.KeepCRDs {
		objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" })
	} else if namespaces, err = a.clear(ctx); err != nil {
		return nil, err
	}

	result := &Uninstalled{}
	for _, object := range objects {
		err := a.Client.Delete(ctx, object, client.PropagationPolicy("Background"))
		switch {
		case apierrors.IsNotFound(err) || unknownKind(err):
			continue
		case err != nil:
			return result, serverError(objectName(object), err)
		}
		result.Deleted = append(result.Deleted, object)
		report.OrQuiet(a.Progress).Done(objectName(object) + " deleted")
	}

	if result.Left, err = a.leftovers(ctx, namespaces); err != nil || !a.WaitForAll {
		return result, err
	}

	return result, a.Wait.until(ctx, fmt.Sprintf("installation in namespace %q", installation.namespace()), a.Progress, func(ctx context.Context) (outlook, error) {
		return allGone(ctx, a.Client, result.Deleted)
	})
}

// pullSecretAccess finds what the installation added outside its namespace so that its
// components can read a pull secret there.
func (a *Uninstall) pullSecretAccess(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, kind := range []string{"Role", "RoleBinding"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: kind + "List"})
		if err := a.Client.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/name": accessRole}); err != nil {
			return nil, serverError(strings.ToLower(kind)+"s", err)
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}

	return found, nil
}

// clear removes extensions and catalogs while their controllers still run. It returns the
// namespaces that the extensions were installed into.
func (a *Uninstall) clear(ctx context.Context) (namespaces []string, err error) {
	extensions, err := (&ExtensionList{Client: a.Client}).Run(ctx)
	if unknownKind(err) {
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

	if err := a.clearExtensions(ctx, extensions); err != nil {
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
		report.OrQuiet(a.Progress).Done(catalogName(catalogs[i].Name) + " deleted")
	}

	return namespaces, nil
}

// clearExtensions uninstalls every extension, and waits until they are gone.
func (a *Uninstall) clearExtensions(ctx context.Context, extensions []olmv1.ClusterExtension) error {
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
		report.OrQuiet(a.Progress).Done(extensionName(name) + " deleted")
	}

	return nil
}

// allGone decides which of the objects are still there.
func allGone(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) (outlook, error) {
	o := outlook{done: true, advice: "see what holds it with 'kubectl get -o yaml': its finalizers, or for a namespace its conditions"}
	for _, object := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		err := c.Get(ctx, client.ObjectKeyFromObject(object), live)
		switch {
		case apierrors.IsNotFound(err) || unknownKind(err):
			continue
		case err != nil:
			return outlook{}, err
		}

		detail := describeDeletion(live)
		o.done = false
		o.pending = objectName(object) + " " + detail
		o.parts = append(o.parts, report.Part{Name: objectName(object), State: report.StateCurrent, Detail: detail})
	}

	return o, nil
}

// deletionConditions are the conditions of namespaces and CRDs that say what their deletion waits
// for.
var deletionConditions = map[string]bool{
	string(corev1.NamespaceDeletionDiscoveryFailure): true, string(corev1.NamespaceDeletionContentFailure): true,
	string(corev1.NamespaceContentRemaining): true, string(corev1.NamespaceFinalizersRemaining): true,
	string(apiextensionsv1.Terminating): true,
}

// describeDeletion returns what the deletion of an object waits for, as far as its conditions and
// finalizers do.
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
		return fmt.Sprintf("is being deleted: finalizers %v are not done", finalizers)
	default:
		return "is being deleted"
	}
}

// leftovers returns what stays on the cluster. The namespaces are those of removed extensions.
func (a *Uninstall) leftovers(ctx context.Context, namespaces []string) ([]Leftover, error) {
	var left []Leftover
	leave := func(kind string, names []string, why string) {
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
		return nil, serverError("customresourcedefinitions", err)
	}

	var kinds, ours, kept []string
	for i := range crds.Items {
		crd := &crds.Items[i]
		switch {
		case !crd.DeletionTimestamp.IsZero():
		case isPlatform(crd.Name):
			kinds = append(kinds, crd.Name)
		case a.KeepCRDs && own[crd.Name]:
			ours = append(ours, crd.Name)
		case crd.Labels[olmv1.LabelOwnerKind] == olmv1.ClusterExtensionKind && (a.KeepCRDs || !isControlledByExtension(crd)):
			kept = append(kept, crd.Name)
		}
	}

	const crdKind = "customresourcedefinitions"
	leave(crdKind, kinds, "other parts of the cluster may use them")
	leave(crdKind, ours, "--keep-crds keeps them, and with them all catalogs and extensions, which nothing manages until Mainstay is installed again")
	leave(crdKind, kept, "they came with extensions, and are kept with all custom resources")
	leave("namespaces", namespaces, "extensions were installed into them, and they may hold what others created")

	return left, nil
}
