package worker

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Status is the progress of a Worker with its Work. The zero value is the status of a Worker
// without work.
type Status struct {
	// Generation is the generation of the Work.
	Generation int64
	// Actual is the release of the Work.
	Actual configv1.Release
	// Verified and AcceptedRisks are copied from the Work.
	Verified      bool
	AcceptedRisks string
	// Capabilities are copied from the Work.
	Capabilities release.Capabilities
	// VersionHash is the hash of the manifests that belong to the cluster.
	VersionHash string

	// Initial is true while the cluster is initialized and was not complete yet.
	Initial bool
	// Reconciling is true once the release was applied completely, or if the Work said so. The
	// Worker then keeps it applied.
	Reconciling bool
	// Total is the number of manifests that belong to the cluster. Done is the number of them
	// that were applied or skipped. While a release is applied for the first time, Done does not
	// decrease when a pass starts again.
	Done, Total int
	// Completed is the number of passes over the whole release that succeeded.
	Completed int
	// Errors is the number of failed attempts at a manifest since work on the release started. It
	// includes attempts that only wait.
	Errors int
	// Failure is the error of the last pass, an *Error in most cases, or what a successful pass
	// has to report. It stays until the next pass has ended. Judge returns what it means.
	Failure error
	// Started is when work on the release started, LastProgress when Done last increased.
	Started, LastProgress time.Time

	// Tasks are the manifests in flight, as `deployment "ns/name" (3 of 99)`, ordered by number.
	Tasks []string
	// Waiting maps the names of ClusterOperators that are not in the wanted state to the time
	// since when the Worker waits for them.
	Waiting map[string]time.Time
	// Deleting are the objects that the release removes and that still exist, sorted.
	Deleting []string
}

// State returns the mode of the current or the next pass.
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

// progress is the state of the Worker that passes write; snapshot turns it into a Status.
type progress struct {
	status Status
	// done counts the manifests of the current pass.
	done int
	// inFlight are the descriptions of the manifests in flight, by number.
	inFlight     map[int]string
	waitingSince map[string]time.Time
	deleting     map[string]bool
	// deletedUIDs are the UIDs of tombstoned objects that were deleted, so that each is deleted
	// only once.
	deletedUIDs map[release.Key]types.UID
}

func newProgress(status Status) progress {
	return progress{
		status: status, inFlight: map[int]string{}, waitingSince: map[string]time.Time{}, deleting: map[string]bool{}, deletedUIDs: map[release.Key]types.UID{},
	}
}

// snapshot returns a Status that shares no mutable state with the progress.
func (p *progress) snapshot() Status {
	status := p.status
	status.Waiting = maps.Clone(p.waitingSince)
	status.Deleting = slices.Sorted(maps.Keys(p.deleting))
	for _, number := range slices.Sorted(maps.Keys(p.inFlight)) {
		status.Tasks = append(status.Tasks, p.inFlight[number])
	}
	return status
}
