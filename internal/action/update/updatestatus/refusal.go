package updatestatus

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// UpdateRefusal is a requested update that the operator refuses. The operator may retry it.
type UpdateRefusal struct {
	// Target is the requested version, or the image if no version was requested.
	Target string `json:"target"`
	// Reason is a CamelCase word.
	Reason string `json:"reason"`
	// Message is a description for people.
	Message string `json:"message"`
	// Since is when the update was refused.
	Since time.Time `json:"since"`
}

// isRequestedRelease reports whether a release is the one that an update requests. An
// update with an architecture requests another image of the same version.
func isRequestedRelease(release configv1.Release, requested *configv1.Update) bool {
	return (requested.Version == "" || requested.Version == release.Version) && (requested.Image == "" || requested.Image == release.Image) && requested.Architecture == ""
}

// findRefusal returns why the requested update is not carried out: the spec is invalid, or
// the release was not accepted. It returns nil if no update is requested or none was
// refused.
func findRefusal(cv *configv1.ClusterVersion) *UpdateRefusal {
	requested := cv.Spec.DesiredUpdate
	if requested == nil {
		return nil
	}

	target := cmp.Or(requested.Version, requested.Image)
	if target == "" || isRequestedRelease(cv.Status.Desired, requested) {
		return nil
	}

	for _, refused := range []struct {
		condition string
		status    metav1.ConditionStatus
	}{
		{configv1.ClusterVersionInvalid, metav1.ConditionTrue}, {configv1.ClusterVersionReleaseAccepted, metav1.ConditionFalse},
	} {
		if c := configv1.FindCondition(cv.Status.Conditions, refused.condition); c != nil && c.Status == refused.status {
			return &UpdateRefusal{Target: target, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
		}
	}

	return nil
}
