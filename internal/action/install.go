package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

// InstallFieldManager is the field manager that an installation is applied with. It
// is not that of the controllers, whose fields it must not take.
const InstallFieldManager = "mainstay-install"

// Scheme gives the kinds that the operations need a client to know.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		olmv1.AddToScheme, configv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme, mcfgv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return scheme, nil
}

// Install installs Mainstay in a cluster, or brings an installation up to date: it
// applies CRDs, namespace, rights, Services and Deployments, and creates the kinds that
// platforms have where the cluster has none.
type Install struct {
	Client   client.Client
	Progress report.Progress

	Installation Installation
	// Wait, when not nil, has Run wait until the components run.
	Wait *Wait
}

// Run applies the installation. It gives the applied objects, in order.
func (a *Install) Run(ctx context.Context) ([]*unstructured.Unstructured, error) {
	objects, err := a.Installation.Manifests()
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(InstallFieldManager), client.ForceOwnership)
		if err != nil {
			return nil, serverError(objectName(object), err)
		}
		report.OrQuiet(a.Progress).Done(objectName(object) + " applied")
	}
	created, err := CreatePlatformKinds(ctx, a.Client, false)
	for _, kind := range created {
		report.OrQuiet(a.Progress).Done(objectName(kind) + " created")
	}
	if err != nil {
		return nil, err
	}
	if a.Installation.RequireServiceAccount {
		if err := a.withdrawClusterAdmin(ctx); err != nil {
			return nil, err
		}
	}
	if a.Wait == nil {
		return objects, nil
	}
	name := fmt.Sprintf("installation in namespace %q", a.Installation.namespace())
	return objects, a.Wait.until(ctx, name, a.Progress, func(ctx context.Context) (outlook, error) {
		return installOutlook(ctx, a.Client, objects)
	})
}

// withdrawClusterAdmin removes what an earlier installation gave to the
// operator-controller: applying less does not take it away.
func (a *Install) withdrawClusterAdmin(ctx context.Context) error {
	all := Installation{Namespace: a.Installation.Namespace}
	objects, err := all.Manifests()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() != "ClusterRoleBinding" || object.GetName() != "operator-controller-cluster-admin" {
			continue
		}
		if err := a.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return serverError(objectName(object), err)
		}
	}
	return nil
}

// objectName names an object for a message, as in `deployment "catalogd-controller-manager"`.
func objectName(object client.Object) string {
	kind := strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind)
	return fmt.Sprintf("%s %q", kind, object.GetName())
}

// installOutlook decides which components of an installation run.
func installOutlook(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) (outlook, error) {
	o := outlook{done: true}
	var builtIn *apply.Probes
	for _, object := range objects {
		if object.GetKind() != "Deployment" && object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
			return outlook{}, err
		}
		part := report.Part{Name: object.GetName(), State: report.StateDone}
		if probe := builtIn.Probe(live); !probe.Ready {
			part.State, part.Detail = report.StateCurrent, probe.Message
			o.done = false
			o.pending = objectName(object) + ": " + probe.Message
			o.advice = fmt.Sprintf("look at its pods: 'kubectl -n %s get pods' and 'kubectl -n %s get events'; an image that cannot be pulled is set with --image", object.GetNamespace(), object.GetNamespace())
		}
		o.parts = append(o.parts, part)
	}
	return o, nil
}

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

// Run removes the installation, in the reverse order of Install. It gives the objects
// that were there.
func (a *Uninstall) Run(ctx context.Context) ([]*unstructured.Unstructured, error) {
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
	if a.KeepCRDs {
		objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" })
	} else if err := a.clear(ctx); err != nil {
		return nil, err
	}
	var deleted []*unstructured.Unstructured
	for _, object := range objects {
		err := a.Client.Delete(ctx, object, client.PropagationPolicy("Background"))
		switch {
		case apierrors.IsNotFound(err) || unknownKind(err):
			continue
		case err != nil:
			return deleted, serverError(objectName(object), err)
		}
		deleted = append(deleted, object)
		report.OrQuiet(a.Progress).Done(objectName(object) + " deleted")
	}
	if !a.WaitForAll {
		return deleted, nil
	}
	return deleted, a.Wait.until(ctx, fmt.Sprintf("installation in namespace %q", installation.namespace()), a.Progress, func(ctx context.Context) (outlook, error) {
		return allGone(ctx, a.Client, deleted)
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

// clear removes extensions and catalogs while their controllers still run.
func (a *Uninstall) clear(ctx context.Context) error {
	extensions, err := (&ExtensionList{Client: a.Client}).Run(ctx)
	if unknownKind(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(extensions) > 0 && !a.DeleteExtensions {
		var names []string
		for i := range extensions {
			names = append(names, extensions[i].Name)
		}
		return &report.Error{
			Object: "extensions " + strings.Join(names, ", "),
			Err:    errors.New("they are still installed, and would be left without a controller"),
			Advice: "uninstall them with 'mainstay extension uninstall NAME', add --delete-extensions to do it now, or --keep-crds to leave them as they are",
		}
	}
	if err := a.clearExtensions(ctx, extensions); err != nil {
		return err
	}
	catalogs, err := (&CatalogList{Client: a.Client}).Run(ctx)
	if err != nil {
		return err
	}
	for i := range catalogs {
		remove := CatalogDelete{Client: a.Client, Progress: a.Progress, Name: catalogs[i].Name, Wait: &a.Wait}
		if err := remove.Run(ctx); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		report.OrQuiet(a.Progress).Done(catalogName(catalogs[i].Name) + " deleted")
	}
	return nil
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
		o.done = false
		o.pending = objectName(object) + " is still there"
		o.parts = append(o.parts, report.Part{Name: objectName(object), State: report.StateCurrent, Detail: "is being deleted"})
	}
	return o, nil
}
