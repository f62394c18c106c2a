package version

import (
	"slices"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// maxHistoryEntries is the maximum length of the history.
const maxHistoryEntries = 100

// releaseAttempt is what is recorded of the applied release.
type releaseAttempt struct {
	configv1.Release

	// complete is true if the whole release was applied at least once.
	complete bool
	// isRecorded is true if this operator or an earlier one already recorded how the release was
	// accepted.
	isRecorded bool
	verified   bool
	risks      string
}

// recordHistory returns the history with the applied release as its first entry. It does not
// change its argument.
func recordHistory(history []configv1.UpdateHistory, a releaseAttempt, now metav1.Time) []configv1.UpdateHistory {
	if a.Image == "" {
		return []configv1.UpdateHistory{}
	}

	history = slices.Clone(history)
	if len(history) == 0 || !mergeIntoEntry(&history[0], a.Release) {
		if len(history) > 0 && history[0].CompletionTime == nil {
			history[0].CompletionTime = &now
		}
		history = slices.Insert(history, 0, configv1.UpdateHistory{
			State: configv1.PartialUpdate, StartedTime: now, Version: a.Version, Image: a.Image,
		})
	}

	first := &history[0]
	first.Verified = first.Verified || a.verified
	if !a.isRecorded {
		first.AcceptedRisks = a.risks
	}
	if a.complete && first.State != configv1.CompletedUpdate {
		first.State = configv1.CompletedUpdate
		first.CompletionTime = &now
	}

	for len(history) > maxHistoryEntries {
		history = pruneHistory(history)
	}

	return history
}

// mergeIntoEntry fills in missing fields of an entry if it is about the given release, and
// reports whether it is. It is if the images are equal, or if the versions are equal and the
// entry has no image.
func mergeIntoEntry(entry *configv1.UpdateHistory, r configv1.Release) bool {
	switch {
	case entry.Image == r.Image:
		if r.Version != "" && entry.Version != "" && entry.Version != r.Version {
			return false
		}
	case entry.Image != "" || entry.Version != r.Version || r.Version == "":
		return false
	}

	entry.Image = r.Image
	if r.Version != "" {
		entry.Version = r.Version
	}
	return true
}

// Weights of history entries. The entry with the lowest weight is removed first.
const (
	weightKept     = 1000  // entries that are never left out
	weightMinorEnd = 30    // the first and the last complete release of a minor version
	weightBetween  = 20    // attempts on the way from one minor version to another
	weightWithin   = -20   // attempts within a minor version
	weightPerEntry = -1.01 // for each entry that is newer
	minNewestKept  = 5     // how many of the newest are never left out
)

// pruneHistory removes the least important entry, and a duplicate neighbor that results.
func pruneHistory(history []configv1.UpdateHistory) []configv1.UpdateHistory {
	least := 0
	for i := range history {
		if historyEntryWeight(history, i) < historyEntryWeight(history, least) {
			least = i
		}
	}

	history = slices.Delete(history, least, least+1)
	if least > 0 && least < len(history) && isSameRelease(history[least-1], history[least]) {
		// The newer entry is kept, unless only the older one was completed.
		drop := least
		if history[least].State == configv1.CompletedUpdate && history[least-1].State != configv1.CompletedUpdate {
			drop = least - 1
		}
		history = slices.Delete(history, drop, drop+1)
	}

	return history
}

func isSameRelease(a, b configv1.UpdateHistory) bool {
	return a.Image == b.Image && a.Version == b.Version
}

func historyEntryWeight(history []configv1.UpdateHistory, i int) float64 {
	weight := weightPerEntry * float64(i)
	isComplete := func(entry configv1.UpdateHistory) bool { return entry.State == configv1.CompletedUpdate }
	if i < minNewestKept || i == len(history)-1 || i == slices.IndexFunc(history, isComplete) {
		weight += weightKept
	}

	switch {
	case isComplete(history[i]):
		if isMinorEndpoint(history, i) {
			weight += weightMinorEnd
		}
	case isBetweenMinors(history, i):
		weight += weightBetween
	default:
		weight += weightWithin
	}

	return weight
}

// isMinorEndpoint reports whether a completed entry is the first or the last one of its minor
// version.
func isMinorEndpoint(history []configv1.UpdateHistory, i int) bool {
	hasOther := func(entries []configv1.UpdateHistory) bool {
		return slices.ContainsFunc(entries, func(entry configv1.UpdateHistory) bool {
			return entry.State == configv1.CompletedUpdate && parseMinorVersion(entry.Version) == parseMinorVersion(history[i].Version)
		})
	}
	return !hasOther(history[:i]) || !hasOther(history[i+1:])
}

// isBetweenMinors reports whether a neighbor of an entry has another minor version.
func isBetweenMinors(history []configv1.UpdateHistory, i int) bool {
	minor := parseMinorVersion(history[i].Version)
	return i > 0 && parseMinorVersion(history[i-1].Version) != minor || i < len(history)-1 && parseMinorVersion(history[i+1].Version) != minor
}

type minorVersion struct{ major, minor uint64 }

// parseMinorVersion returns the minor version; the zero value if the version is invalid.
func parseMinorVersion(version string) minorVersion {
	v, err := semver.Parse(version)
	if err != nil {
		return minorVersion{}
	}
	return minorVersion{v.Major, v.Minor}
}
