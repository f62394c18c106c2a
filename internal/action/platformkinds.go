package action

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/config"
)

// versionKinds are the CRDs of clusters with a managed version. Programs use their presence
// to detect such a platform, so an installation must not create them.
var versionKinds = map[string]bool{
	"clusterversions.config.openshift.io":                  true,
	"machineconfigs.machineconfiguration.openshift.io":     true,
	"machineconfigpools.machineconfiguration.openshift.io": true,
	"machineconfigurations.operator.openshift.io":          true,
}

// PlatformKinds returns the CRDs that a platform may already have: those that configure
// registry mirrors, and ClusterOperator. If the version of the cluster is managed,
// ClusterVersion and the CRDs of node configurations are included. They are created if they
// are absent, and never changed or removed.
func PlatformKinds(versionManaged bool) ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(config.Platform, "platform/*.openshift.io_*.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the kinds of the platform: %w", err)
	}

	var kinds []*unstructured.Unstructured
	for _, name := range files {
		data, err := config.Platform.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the kinds of the platform: %w", err)
		}

		documents, err := decodeManifests(data)
		if err != nil {
			return nil, fmt.Errorf("reading the kinds of the platform: %s: %w", path.Base(name), err)
		}

		kinds = append(kinds, documents...)
	}

	return slices.DeleteFunc(kinds, func(kind *unstructured.Unstructured) bool {
		return versionKinds[kind.GetName()] && !versionManaged
	}), nil
}

// CreatePlatformKinds creates the CRDs of PlatformKinds that the cluster does not have. It
// returns the created ones.
func CreatePlatformKinds(ctx context.Context, c client.Client, versionManaged bool) ([]*unstructured.Unstructured, error) {
	kinds, err := PlatformKinds(versionManaged)
	if err != nil {
		return nil, err
	}

	var created []*unstructured.Unstructured
	for _, kind := range kinds {
		isNew, err := createIfAbsent(ctx, c, kind)
		if err != nil {
			return created, err
		}
		if isNew {
			created = append(created, kind)
		}
	}

	return created, nil
}

// createIfAbsent creates an object unless it exists, and reports whether it did.
func createIfAbsent(ctx context.Context, c client.Client, object *unstructured.Unstructured) (bool, error) {
	err := c.Create(ctx, object, client.FieldOwner(InstallFieldManager))
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, NewServerError(DescribeKindAndName(object), err)
}

// isPlatformKind reports whether an object is a CRD of PlatformKinds.
func isPlatformKind(object *unstructured.Unstructured) bool {
	return object.GetKind() == "CustomResourceDefinition" && strings.HasSuffix(object.GetName(), ".openshift.io")
}
