package worker

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Work is a release that was accepted, and how the administrator wants it applied.
// Nothing in it may be changed after it was given to a Worker.
type Work struct {
	// Generation is that of the ClusterVersion that all of this follows from.
	Generation int64
	// Owner refers to the ClusterVersion. Objects of the release get it as their
	// controller. Without a UID they get no owner.
	Owner metav1.OwnerReference
	// Desired is the release.
	Desired configv1.Release
	// Payload is what the release image holds, loaded with templates executed and not
	// filtered. Required.
	Payload *release.Payload
	// Cluster decides which manifests of the payload belong to the cluster.
	Cluster release.Cluster
	// Capabilities are those of the cluster, with those that are enabled implicitly.
	// Manifests of others are counted and passed over.
	Capabilities release.Capabilities
	// Overrides leave objects to the administrator.
	Overrides []configv1.ComponentOverride
	// State says why the release is applied. It counts only when the release is another
	// one than before: after the first pass over all of it the Worker goes on in
	// Reconciling by itself.
	State release.Mode
	// Verified and AcceptedRisks are what is known of how the release was accepted. They
	// are handed on to the Status.
	Verified      bool
	AcceptedRisks string
}

// isRelease reports whether it is about the same release: the same pull spec, or the same
// version where there is none.
func (w *Work) isRelease(other *Work) bool {
	if w.Desired.Image != "" || other.Desired.Image != "" {
		return w.Desired.Image == other.Desired.Image
	}
	return w.Desired.Version == other.Desired.Version
}

// asksTheSame reports whether other work for the same release asks for nothing else.
func (w *Work) asksTheSame(other *Work) bool {
	return w.Owner.UID == other.Owner.UID && slices.Equal(w.Overrides, other.Overrides) &&
		w.Capabilities.Known.Equal(other.Capabilities.Known) && w.Capabilities.Enabled.Equal(other.Capabilities.Enabled)
}

func (w *Work) overrides() []release.Override {
	overrides := make([]release.Override, len(w.Overrides))
	for i, o := range w.Overrides {
		overrides[i] = release.Override{
			Key:       release.Key{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
			Unmanaged: o.Unmanaged,
		}
	}

	return overrides
}
