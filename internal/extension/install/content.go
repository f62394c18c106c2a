package install

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// revisionContent is the content of a revision of the chosen bundle.
type revisionContent struct {
	bundle      *dependency.Bundle
	objects     []unstructured.Unstructured
	phases      []olmv1.ClusterObjectSetPhase
	annotations map[string]string
	// omitsStatedProperties reports whether the properties of the bundle are too large to be
	// recorded.
	omitsStatedProperties bool
}

// buildRevisionContent renders the chosen bundle for an extension. The digest is that of the inputs
// of the revision.
func buildRevisionContent(ext *olmv1.ClusterExtension, chosen selection, digest string, on platform, image *BundleImage) (*revisionContent, error) {
	rendered, err := renderBundle(ext, chosen, on, image)
	switch {
	case reconcile.ReasonOf(err, "") == olmv1.ReasonInvalidConfiguration:
		// Scripts match this wording.
		return nil, fmt.Errorf("error for resolved bundle %q with version %q: invalid ClusterExtension configuration: %w", chosen.Name, chosen.Version, err)
	case errors.As(err, new(*render.RefusedError)):
		return nil, err // It names the bundle.
	case err != nil:
		return nil, fmt.Errorf("bundle %q: %w", chosen.Name, err)
	}

	phases := groupIntoPhases(rendered.objects)
	if err := checkPhaseCount(phases); err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", chosen.Name, err))
	}

	annotations, err := newRevisionAnnotations(ext, chosen, rendered.dependencies, image.Canonical, digest)
	if err != nil {
		return nil, err
	}

	recordCRDNames(annotations, rendered.objects)
	recorded := recordStatedProperties(annotations, rendered.statedProperties)
	return &revisionContent{rendered.dependencies, rendered.objects, phases, annotations, !recorded}, nil
}

// newRevision returns a revision with the content, and the Secrets that hold the objects of a large
// one.
func (c *revisionContent) newRevision(ext *olmv1.ClusterExtension, number int64, systemNamespace string) (*olmv1.ClusterObjectSet, []corev1.Secret, error) {
	set := newClusterObjectSet(ext, number, c.annotations)
	packed, secrets, err := packIntoSecrets(c.phases, ext.Name, set.Name, systemNamespace)
	if err != nil {
		return nil, nil, err
	}
	set.Spec.Phases = packed
	return set, secrets, nil
}

// findIdenticalRevision returns the revision that already has the content: the newest one, or the
// installed one while an update is incomplete. It returns nil if a new revision is needed.
func (c *revisionContent) findIdenticalRevision(ext *olmv1.ClusterExtension, revs revisions, systemNamespace string) *olmv1.ClusterObjectSet {
	for _, set := range []*olmv1.ClusterObjectSet{revs.newest(), revs.installed()} {
		if set == nil {
			continue
		}
		same, _, err := c.newRevision(ext, set.Spec.Revision, systemNamespace)
		if err == nil && hasSameContent(set, same) {
			return set
		}
	}

	return nil
}
