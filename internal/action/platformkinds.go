package action

import (
	"context"
	"fmt"
	"io/fs"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/config"
)

// PlatformKinds gives the CRDs of kinds that a platform may have of its own: by which a
// cluster declares mirrors of registries, and ClusterOperator. They are created where they
// are absent, and never changed or removed.
func PlatformKinds() ([]*unstructured.Unstructured, error) {
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
	return kinds, nil
}

// CreatePlatformKinds creates the kinds that the cluster does not have, and gives those that
// it created.
func CreatePlatformKinds(ctx context.Context, c client.Client) ([]*unstructured.Unstructured, error) {
	kinds, err := PlatformKinds()
	if err != nil {
		return nil, err
	}
	var created []*unstructured.Unstructured
	for _, kind := range kinds {
		err := c.Create(ctx, kind, client.FieldOwner(InstallFieldManager))
		switch {
		case apierrors.IsAlreadyExists(err):
		case err != nil:
			return created, serverError(objectName(kind), err)
		default:
			created = append(created, kind)
		}
	}
	return created, nil
}
