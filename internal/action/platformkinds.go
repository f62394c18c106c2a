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

// MirrorKinds gives the CRDs of the kinds by which a cluster declares mirrors of
// registries. Where a platform has them they are the platform's: they are created where
// they are absent, and never changed or removed.
func MirrorKinds() ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(config.Mirrors, "mirrors/*.openshift.io_*.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the kinds of mirrors: %w", err)
	}
	var kinds []*unstructured.Unstructured
	for _, name := range files {
		data, err := config.Mirrors.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the kinds of mirrors: %w", err)
		}
		documents, err := decodeAll(data)
		if err != nil {
			return nil, fmt.Errorf("reading the kinds of mirrors: %s: %w", path.Base(name), err)
		}
		kinds = append(kinds, documents...)
	}
	return kinds, nil
}

// CreateMirrorKinds creates the kinds that the cluster does not have, and gives those that
// it created.
func CreateMirrorKinds(ctx context.Context, c client.Client) ([]*unstructured.Unstructured, error) {
	kinds, err := MirrorKinds()
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
