package worker

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Status is how far a Worker is with its Work. The zero value is that of a Worker without
// work.
type Status struct {
	// Generation is that of the Work.
	Generation int64
	// Actual is the release of the Work.
	Actual configv1.Release
	// Verified and AcceptedRisks are those of the Work.
	Verified      bool
	AcceptedRisks string
	// Capabilities are those of the Work.
	Capabilities release.Capabilities
	// VersionHash is about the manifests that belong to the cluster.
	VersionHash string

	// Initial says that the cluster is being made, and was not complete yet.
	Initial bool
	// Reconciling says that all of the release was applied at least once, or that the Work
	// said so; the cluster is kept as it is.
	Reconciling bool
	// Total is how many manifests belong to the cluster. Done is how many of them were
	// applied or passed over; while a release is applied for the first time it does not
	// fall when a pass begins anew.
	Done, Total int
	// Completed is how many passes over all of the release succeeded.
	Completed int
	// Errors is how many attempts at a manifest failed since work on the release began, those
	// among them that only wait for something.
	Errors int
	// Failure is what kept the last pass from succeeding, an *Error in most cases, or what
	// a pass that succeeded has to report. It stays until the next pass has ended.
	// Judge says what it means.
	Failure error
	// Started is when work on the release began, LastProgress when Done rose last.
	Started, LastProgress time.Time

	// Tasks are the manifests that are worked on now, as `deployment "ns/name" (3 of 99)`,
	// by number.
	Tasks []string
	// Waiting tells since when ClusterOperators, by name, are not as the release wants
	// them.
	Waiting map[string]time.Time
	// Deleting are objects that the release removes and that are not gone yet, sorted.
	Deleting []string
}

// State is the mode of the next pass, or of the present one.
func (s Status) State() release.Mode {
	switch {
	case s.Reconciling:
		return release.Reconciling
	case s.Initial:
		return release.Initializing
	default:
		return release.Updating
	}
}

// progress is what a pass writes of a Status.
type progress struct {
	status Status
	// done counts the manifests of the present pass.
	done int
	// tasks are those in flight, by number.
	tasks    map[int]string
	waiting  map[string]time.Time
	deleting map[string]bool
	// removed are the objects of tombstones that were deleted, so that none is twice.
	removed map[release.Key]types.UID
}

func newProgress(status Status) progress {
	return progress{
		status: status, tasks: map[int]string{}, waiting: map[string]time.Time{}, deleting: map[string]bool{}, removed: map[release.Key]types.UID{},
	}
}

// snapshot returns a Status that nobody changes any more.
func (p *progress) snapshot() Status {
	status := p.status
	status.Waiting = maps.Clone(p.waiting)
	status.Deleting = slices.Sorted(maps.Keys(p.deleting))
	for _, number := range slices.Sorted(maps.Keys(p.tasks)) {
		status.Tasks = append(status.Tasks, p.tasks[number])
	}
	return status
}
