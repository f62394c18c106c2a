package action

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

const (
	// customResourcePageSize is the number of custom resources per request.
	// maxCustomResourcePages limits the requests per CRD. For further custom resources the
	// API server returns their number, but not their namespaces.
	customResourcePageSize, maxCustomResourcePages = 500, 10
)

// ExtensionRemoval describes what is removed with an extension in addition to its
// workloads.
type ExtensionRemoval struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Bundle is the installed bundle. It is empty if there is none.
	Bundle string `json:"bundle,omitempty"`
	// CRDs are the CRDs that the extension controls.
	CRDs []CRDRemoval `json:"crds,omitempty"`
	// CRDsKept reports whether the CRDs and the custom resources remain.
	CRDsKept bool `json:"crdsKept,omitempty"`
	// Namespaces are the namespaces that the extension controls. They are deleted with
	// everything in them.
	Namespaces []string `json:"namespaces,omitempty"`
	// Unknown is the reason why the CRDs or namespaces could not be read. It is empty if
	// they were read.
	Unknown string `json:"unknown,omitempty"`

	uid types.UID
}

// CRDRemoval is a CRD that is removed with an extension.
type CRDRemoval struct {
	Name string `json:"name"`
	// CustomResources is the number of custom resources.
	CustomResources int64 `json:"customResources"`
	// Namespaces are the namespaces of the custom resources that were read.
	Namespaces []string `json:"namespaces,omitempty"`
	// Unknown is the reason why the custom resources could not be counted. It is empty if
	// they were counted.
	Unknown string `json:"unknown,omitempty"`
}

// describeLoss returns the custom resources that would or might be deleted. It is empty if
// there are none.
func (r *ExtensionRemoval) describeLoss() string {
	if r.CRDsKept {
		return ""
	}

	var parts []string
	if r.Unknown != "" {
		parts = append(parts, r.Unknown)
	}

	for i := range r.CRDs {
		crd := &r.CRDs[i]
		switch {
		case crd.Unknown != "":
			parts = append(parts, crd.Name+" ("+crd.Unknown+")")
		case crd.CustomResources > 0:
			parts = append(parts, fmt.Sprintf("%s (%d)", crd.Name, crd.CustomResources))
		}
	}

	return strings.Join(parts, ", ")
}

// LosesData reports whether the removal deletes custom resources or namespaces, or might.
func (r *ExtensionRemoval) LosesData() bool { return len(r.Namespaces) > 0 || r.describeLoss() != "" }

// previewRemoval returns what is removed with an extension.
func previewRemoval(ctx context.Context, c client.Client, extension *olmv1.ClusterExtension, keepCRDs bool) (*ExtensionRemoval, error) {
	removal := &ExtensionRemoval{
		Name: extension.Name, Namespace: extension.Spec.Namespace, uid: extension.UID,
		CRDsKept: keepCRDs || extension.Annotations[olmv1.AnnotationKeepCRDs] == "true",
	}
	if installed := extension.Status.Install; installed != nil {
		removal.Bundle = installed.Bundle.Name
	}

	owned := client.MatchingLabels{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: extension.Name}

	var crds apiextensionsv1.CustomResourceDefinitionList
	var namespaces corev1.NamespaceList
	for _, list := range []client.ObjectList{&crds, &namespaces} {
		err := c.List(ctx, list, owned)
		switch {
		case apierrors.IsForbidden(err):
			removal.Unknown = "you are not allowed to list CRDs and namespaces, so it is unknown what would be lost"
		case err != nil:
			return nil, err
		}
	}

	for i := range namespaces.Items {
		if isControlledByExtension(&namespaces.Items[i]) {
			removal.Namespaces = append(removal.Namespaces, namespaces.Items[i].Name)
		}
	}

	for i := range crds.Items {
		if !isControlledByExtension(&crds.Items[i]) {
			continue
		}
		crd, err := CountCustomResources(ctx, c, &crds.Items[i])
		if err != nil {
			return nil, fmt.Errorf("counting the custom resources of CRD %s: %w", crds.Items[i].Name, err)
		}
		removal.CRDs = append(removal.CRDs, *crd)
	}

	return removal, nil
}

// isControlledByExtension reports whether a revision or an extension controls the object,
// so that the object is removed with it.
func isControlledByExtension(object metav1.Object) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && strings.HasPrefix(controller.APIVersion, olmv1.GroupVersion.Group+"/") &&
		(controller.Kind == olmv1.ClusterObjectSetKind || controller.Kind == olmv1.ClusterExtensionKind)
}

// CountCustomResources counts the custom resources of a CRD. If they cannot be listed, it
// sets Unknown instead of returning an error: the user has to decide.
func CountCustomResources(ctx context.Context, c client.Client, crd *apiextensionsv1.CustomResourceDefinition) (*CRDRemoval, error) {
	removal := &CRDRemoval{Name: crd.Name}
	listKind, ok := servedListKind(crd)
	if !ok {
		removal.Unknown = "no version of it is served, so that its custom resources cannot be counted"
		return removal, nil
	}

	namespaces := map[string]bool{}
	list := &metav1.PartialObjectMetadataList{}
	for range maxCustomResourcePages {
		next := list.Continue
		list = &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(listKind)
		err := c.List(ctx, list, client.Limit(customResourcePageSize), client.Continue(next))
		switch {
		case IsUnknownKind(err):
			return removal, nil // the CRD is not established and never had custom resources
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			removal.Unknown = "its custom resources cannot be counted: " + err.Error()
			return removal, nil //nolint:nilerr // Unknown has the error.
		}

		removal.CustomResources += int64(len(list.Items))
		for i := range list.Items {
			namespaces[list.Items[i].Namespace] = true
		}

		if list.Continue == "" {
			break
		}
	}

	if list.RemainingItemCount != nil {
		removal.CustomResources += *list.RemainingItemCount
	}

	delete(namespaces, "")
	removal.Namespaces = slices.Sorted(maps.Keys(namespaces))
	return removal, nil
}
