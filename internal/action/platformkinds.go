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

// versionKinds are the kinds of clusters whose version is managed. Programs take a cluster that
// has them for one of such a platform, so that an installation does not make them.
var versionKinds = map[string]bool{
	"clusterversions.config.openshift.io":                  true,
	"machineconfigs.machineconfiguration.openshift.io":     true,
	"machineconfigpools.machineconfiguration.openshift.io": true,
	"machineconfigurations.operator.openshift.io":          true,
}

// PlatformKinds returns the CRDs of kinds that a platform may have of its own: by which a
// cluster declares mirrors of registries, and ClusterOperator; for a cluster whose version is
// managed also ClusterVersion, and those by which nodes are configured. They are created
// where they are absent, and never changed or removed.
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

		documents, err := decodeAll(data)
		if err != nil {
			return nil, fmt.Errorf("reading the kinds of the platform: %s: %w", path.Base(name), err)
		}

		kinds = append(kinds, documents...)
	}

	return slices.DeleteFunc(kinds, func(kind *unstructured.Unstructured) bool {
		return versionKinds[kind.GetName()] && !versionManaged
	}), nil
}

// CreatePlatformKinds creates those of PlatformKinds that the cluster does not have, and gives
// those that it created.
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

// createIfAbsent creates an object unless there is one of its name, and reports whether it did.
func createIfAbsent(ctx context.Context, c client.Client, object *unstructured.Unstructured) (bool, error) {
	err := c.Create(ctx, object, client.FieldOwner(InstallFieldManager))
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, serverError(objectName(object), err)
}

// isPlatformKind reports whether an object is one of PlatformKinds.
func isPlatformKind(object *unstructured.Unstructured) bool {
	return object.GetKind() == "CustomResourceDefinition" && strings.HasSuffix(object.GetName(), ".openshift.io")
}
