package action

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/config"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Names of OLM Classic.
const (
	classicFolder = "classic"
	// classicNamespace and classicOperatorsNamespace are its namespaces.
	classicNamespace          = "olm"
	classicOperatorsNamespace = "operators"
	// defaultCatalogsFolder has the default catalogs.
	defaultCatalogsFolder = "classic/operatorhubio"
	// manifestImage is the image of the components in the manifests.
	manifestImage = "ghcr.io/mainstay-dev/mainstay:latest"
	// packageServerName is the name of the ClusterServiceVersion of package-server, which is also the owner label of
	// its APIService.
	packageServerName = "packageserver"
	packageAPIService = "v1.packages.operators.coreos.com"
	labelClassicOwner = "olm.owner"
	labelCopiedFrom   = "olm.copiedFrom"
	// classicPuller is the Deployment of OLM Classic that pulls images.
	classicPuller = "catalog-operator"
)

// kindServedTimeout is how long a write waits until the API server serves a kind whose CRD was just applied.
const kindServedTimeout = time.Minute

// classicManifests returns the objects of OLM Classic in the order in which they are applied: CRDs first. It returns
// nil if OLM Classic is not part of the installation.
func (in *Installation) classicManifests() ([]*unstructured.Unstructured, error) {
	if in.DefaultCatalogs && !in.Classic {
		return nil, &report.Error{Object: "installation", Err: errors.New("default catalogs require OLM Classic"), Advice: "add --with classic"}
	}
	if !in.Classic {
		return nil, nil
	}
	if in.systemNamespace() != DefaultSystemNamespace || len(in.FeatureGates) > 0 {
		return nil, &report.Error{
			Object: "installation", Err: errors.New("--namespace and --feature-gates do not apply to OLM Classic, which runs in the namespace " + classicNamespace),
			Advice: "leave out --with classic, and install OLM Classic with 'kubectl apply --server-side -k config/classic'",
		}
	}

	folders := []string{classicFolder}
	if in.DefaultCatalogs {
		folders = append(folders, defaultCatalogsFolder)
	}

	var objects []*unstructured.Unstructured
	for _, folder := range folders {
		read, err := readEmbeddedManifests(config.Classic, folder)
		if err != nil {
			return nil, fmt.Errorf("reading the manifests of OLM Classic: %w", err)
		}
		objects = append(objects, read...)
	}

	for _, object := range objects {
		object.Object, _ = replaceImage(object.Object, in.Image).(map[string]any) // A map is replaced by a map.
		if err := in.configureClassicPuller(object); err != nil {
			return nil, fmt.Errorf("%s: %w", DescribeKindAndName(object), err)
		}
	}

	files, err := in.newFilesConfigMap(classicNamespace, objects, func(deployment string) bool { return deployment == classicPuller })
	if err != nil {
		return nil, err
	}

	// The namespace comes first, and the Deployment can only start when the files exist.
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" && o.GetName() == classicNamespace
	}) + 1
	return slices.Insert(objects, at, files...), nil
}

// ClassicKinds returns the CRDs and the namespaces of OLM Classic, for servers that run outside of the cluster.
func ClassicKinds() ([]*unstructured.Unstructured, error) {
	objects, err := readEmbeddedManifests(config.Classic, classicFolder)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests of OLM Classic: %w", err)
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() != "CustomResourceDefinition" && o.GetKind() != "Namespace"
	}), nil
}

// configureClassicPuller sets the arguments for pulling images of catalog-operator. Its role allows it to read all
// Secrets, so the pull secret needs no other right.
func (in *Installation) configureClassicPuller(object *unstructured.Unstructured) error {
	if object.GetKind() != "Deployment" || object.GetName() != classicPuller {
		return nil
	}
	return editManagerContainer(object, func(container map[string]any) error {
		args, _, err := unstructured.NestedStringSlice(container, "args")
		if err != nil {
			return err
		}
		return unstructured.SetNestedStringSlice(container, append(args, in.pullArgs()...), "args")
	})
}

// replaceImage returns a value of a manifest in which image takes the place of the image of the components. An empty image
// replaces nothing.
func replaceImage(value any, image string) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = replaceImage(v[key], image)
		}
	case []any:
		for i := range v {
			v[i] = replaceImage(v[i], image)
		}
	case string:
		if prefix, ok := strings.CutSuffix(v, manifestImage); ok && image != "" {
			return prefix + image
		}
	}

	return value
}

// retryUntilServed calls write until the API server serves the kind of an object, whose CRD was just applied.
func retryUntilServed(ctx context.Context, write func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, kindServedTimeout, true, func(ctx context.Context) (bool, error) {
		last = write(ctx)
		if IsUnknownKind(last) {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}

// classicRemoval removes OLM Classic from a cluster.
type classicRemoval struct {
	*Uninstall

	result *UninstallResult
}

// run deletes the objects that an installation has created, and records what stays. It deletes package-server first, while
// olm-operator cleans up after it.
func (r *classicRemoval) run(ctx context.Context) error {
	// A file adds the ConfigMap that a former installation may have written.
	installation := Installation{Classic: true, DefaultCatalogs: true, RegistriesConf: []byte{}}
	objects, err := installation.classicManifests()
	if err != nil {
		return err
	}

	slices.Reverse(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return boolOrder(isPackageServer(b)) - boolOrder(isPackageServer(a))
	})
	for _, object := range objects {
		if err := r.deleteClassicObject(ctx, object); err != nil {
			return err
		}
	}

	return r.deletePackageAPIService(ctx)
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

func isPackageServer(object *unstructured.Unstructured) bool {
	return object.GetKind() == operatorsv1alpha1.ClusterServiceVersionKind && object.GetName() == packageServerName
}

// checkOperators returns an error if OLM Classic is to be removed and operators are installed that would no longer be
// managed.
func (a *Uninstall) checkOperators(ctx context.Context) error {
	if !a.Classic || a.KeepCRDs {
		return nil
	}

	var list operatorsv1alpha1.ClusterServiceVersionList
	if err := a.Client.List(ctx, &list); IsUnknownKind(err) {
		return nil
	} else if err != nil {
		return NewServerError("clusterserviceversions", err)
	}

	var names []string
	for i := range list.Items {
		csv := &list.Items[i]
		if _, isCopied := csv.Labels[labelCopiedFrom]; !isCopied && csv.Name != packageServerName {
			names = append(names, csv.Namespace+"/"+csv.Name)
		}
	}

	if len(names) == 0 {
		return nil
	}
	return &report.Error{
		Object: "operators " + strings.Join(names, ", "), Err: errors.New("OLM Classic still manages them"),
		Advice: "remove them with 'mainstay subscription uninstall' first, or keep them with --keep-crds",
	}
}

// deleteClassicObject deletes an object, unless it stays or was not written by an installation.
func (r *classicRemoval) deleteClassicObject(ctx context.Context, object *unstructured.Unstructured) error {
	if why := r.keepReason(object); why != "" {
		return r.recordKept(ctx, object, why)
	}

	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case apierrors.IsNotFound(err) || IsUnknownKind(err):
		return nil
	case err != nil:
		return NewServerError(DescribeKindAndName(object), err)
	case !isInstalled(live):
		return r.recordKept(ctx, object, "not written by 'mainstay install'")
	}

	if err := r.Client.Delete(ctx, live, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
		return NewServerError(DescribeKindAndName(object), err)
	}
	r.result.Deleted = append(r.result.Deleted, object)
	report.OrQuiet(r.Progress).Done(DescribeKindAndName(object) + " deleted")
	if !isPackageServer(object) {
		return nil
	}

	return r.Wait.Poll(ctx, "package-server", r.Progress, func(ctx context.Context) (Outcome, error) {
		return allDeletedWaitOutcome(ctx, r.Client, []*unstructured.Unstructured{object})
	})
}

// keepReason returns why an object stays, or "".
func (r *classicRemoval) keepReason(object *unstructured.Unstructured) string {
	switch {
	case object.GetKind() == "Namespace" && object.GetName() == classicOperatorsNamespace:
		return "may contain operators and other objects"
	case !r.KeepCRDs || isPackageServer(object):
		return ""
	case object.GetKind() == "CustomResourceDefinition", object.GetKind() == "Namespace", object.GroupVersionKind().Group == operatorsv1alpha1.GroupVersion.Group:
		return "kept by --keep-crds"
	}
	return ""
}

// recordKept records an object that stays, if it exists.
func (r *classicRemoval) recordKept(ctx context.Context, object *unstructured.Unstructured, why string) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case apierrors.IsNotFound(err) || IsUnknownKind(err):
		return nil
	case err != nil:
		return NewServerError(DescribeKindAndName(object), err)
	}

	name := strings.TrimPrefix(path.Join(object.GetNamespace(), object.GetName()), "/")
	kind := strings.ToLower(object.GetKind()) + "s"
	for i := range r.result.Left {
		if prefix := kind + " "; r.result.Left[i].Why == why && strings.HasPrefix(r.result.Left[i].Objects, prefix) {
			r.result.Left[i].Objects += ", " + name
			return nil
		}
	}

	r.result.Left = append(r.result.Left, Leftover{Objects: kind + " " + name, Why: why})
	return nil
}

// isInstalled reports whether an installation has written an object.
func isInstalled(object client.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == InstallFieldManager })
}

// deletePackageAPIService deletes the APIService of package-server if olm-operator did not. Without its server it would
// disturb discovery and the deletion of namespaces.
func (r *classicRemoval) deletePackageAPIService(ctx context.Context) error {
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	err := r.Client.Get(ctx, client.ObjectKey{Name: packageAPIService}, service)
	if apierrors.IsNotFound(err) || (err == nil && service.Labels[labelClassicOwner] != packageServerName) {
		return nil
	}
	if err == nil {
		err = client.IgnoreNotFound(r.Client.Delete(ctx, service))
	}
	if err != nil {
		return NewServerError("apiservice "+packageAPIService, err)
	}
	return nil
}

// listClassicLeftovers records that OLM Classic stays if an installation has written it and it is not removed.
func (a *Uninstall) listClassicLeftovers(ctx context.Context, result *UninstallResult) error {
	deployment := &metav1.PartialObjectMetadata{}
	deployment.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: classicNamespace, Name: "olm-operator"}, deployment)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return NewServerError("deployment olm-operator", err)
	case isInstalled(deployment):
		result.Left = append(result.Left, Leftover{
			Objects: "OLM Classic in namespace " + classicNamespace, Why: "it is removed with 'mainstay uninstall --with classic'",
		})
	}
	return nil
}
