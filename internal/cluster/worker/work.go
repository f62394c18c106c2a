package worker

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Work is an accepted release, and how the administrator wants it applied. It must not be
// changed after it was passed to a Worker.
type Work struct {
	// Generation is the generation of the ClusterVersion that the work is derived from.
	Generation int64
	// Owner is a reference to the ClusterVersion. It becomes the controller of the objects of the
	// release. Without a UID the objects get no owner.
	Owner metav1.OwnerReference
	// Desired is the release.
	Desired configv1.Release
	// Payload is the content of the release image, loaded with executed templates and not
	// filtered. Required.
	Payload *release.Payload
	// Cluster selects the manifests of the payload that belong to the cluster.
	Cluster release.Cluster
	// Capabilities are the known and enabled capabilities of the cluster, including those that
	// are enabled implicitly. Manifests of disabled ones are counted and skipped.
	Capabilities release.Capabilities
	// Overrides name the objects that the administrator manages.
	Overrides []configv1.ComponentOverride
	// State is the mode in which the release is applied. It is used only when the release differs
	// from the one before: after the first complete pass the Worker switches to Reconciling.
	State release.Mode
	// Verified and AcceptedRisks describe how the release was accepted. They are copied to the
	// Status.
	Verified      bool
	AcceptedRisks string
}

// isSameWork reports whether all fields of other work are the same.
func (w *Work) isSameWork(other *Work) bool {
	if w.Payload != other.Payload {
		return false
	}

	// A payload is too large to be compared by its content.
	a, b := *w, *other
	a.Payload = nil
	b.Payload = nil
	return equality.Semantic.DeepEqual(a, b)
}

// isSameRelease reports whether other is work for the same release: the same pull spec, or the
// same version if neither has a pull spec.
func (w *Work) isSameRelease(other *Work) bool {
	if w.Desired.Image != "" || other.Desired.Image != "" {
		return w.Desired.Image == other.Desired.Image
	}
	return w.Desired.Version == other.Desired.Version
}

// hasSameSettings reports whether other work for the same release has the same owner, overrides
// and capabilities.
func (w *Work) hasSameSettings(other *Work) bool {
	return w.Owner.UID == other.Owner.UID && slices.Equal(w.Overrides, other.Overrides) &&
		w.Capabilities.Known.Equal(other.Capabilities.Known) && w.Capabilities.Enabled.Equal(other.Capabilities.Enabled)
}

// releaseOverrides converts the overrides to the type of the release package.
func (w *Work) releaseOverrides() []release.Override {
	overrides := make([]release.Override, len(w.Overrides))
	for i, o := range w.Overrides {
		overrides[i] = release.Override{
			Key:       release.Key{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
			Unmanaged: o.Unmanaged,
		}
	}

	return overrides
}
