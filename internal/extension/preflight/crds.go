package preflight

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/crdsafety"
)

// CRDChecker checks that the CRDs of a cluster can be updated to those of a bundle. It
// reads them; internal/crdsafety compares them.
type CRDChecker struct {
	reader client.Reader
}

// NewCRDChecker returns a CRDChecker. The reader must read from the API server, not from a cache: CRDs
// are large, and seldom needed. Its scheme must have the kinds of apiextensions.k8s.io/v1.
func NewCRDChecker(reader client.Reader) *CRDChecker { return &CRDChecker{reader: reader} }

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get

// Check checks the CRDs among the objects of an extension, unless its spec disables that. It is a
// Check. It skips CRDs that do not exist on the cluster, that are being deleted, and those with
// another owner, which are not written.
//
// The error wraps a *crdsafety.UnsafeError for each unsafe CRD. Any other error in it means that
// the check failed.
func (c *CRDChecker) Check(ctx context.Context, ext *olmv1.ClusterExtension, change Change) error {
	if !CRDsEnforced(ext) {
		return nil
	}

	var errs []error
	objects := change.Written
	for i := range objects {
		if objects[i].GroupVersionKind() != apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition") {
			continue
		}
		if err := c.checkCRDUpgrade(ctx, ext, &objects[i]); err != nil {
			errs = append(errs, fmt.Errorf("validating upgrade for CRD %q failed: %w", objects[i].GetName(), err))
		}
	}

	return errors.Join(errs...)
}

func (c *CRDChecker) checkCRDUpgrade(ctx context.Context, ext *olmv1.ClusterExtension, object *unstructured.Unstructured) error {
	var live, wanted apiextensionsv1.CustomResourceDefinition
	err := c.reader.Get(ctx, client.ObjectKeyFromObject(object), &live)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading it from the cluster: %w", err)
	case live.DeletionTimestamp != nil, hasForeignController(&live, ext):
		return nil
	}

	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &wanted); err != nil {
		return fmt.Errorf("decoding the bundle's CRD: %w", err)
	}

	return crdsafety.Check(&live, &wanted)
}

// CRDsEnforced reports whether the extension's CRDs are checked, which is the default.
func CRDsEnforced(ext *olmv1.ClusterExtension) bool {
	install := ext.Spec.Install
	return install == nil || install.Preflight == nil || install.Preflight.CRDUpgradeSafety == nil ||
		install.Preflight.CRDUpgradeSafety.Enforcement != olmv1.CRDUpgradeSafetyEnforcementNone
}

// hasForeignController reports whether something other than the extension and its revisions
// controls the object. An object without a controller may be adopted.
func hasForeignController(object metav1.Object, ext *olmv1.ClusterExtension) bool {
	controller := metav1.GetControllerOf(object)
	switch {
	case controller == nil, controller.UID == ext.UID:
		return false
	case controller.Kind != olmv1.ClusterObjectSetKind || controller.APIVersion != olmv1.GroupVersion.String():
		return true
	}

	number, ok := strings.CutPrefix(controller.Name, ext.Name+"-")
	if !ok {
		return true
	}

	_, err := strconv.ParseUint(number, 10, 63)
	return err != nil
}
