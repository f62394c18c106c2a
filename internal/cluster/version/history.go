package version

import (
	"slices"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// maxHistory is how many entries are kept.
const maxHistory = 100

// attempt is what is to be recorded of the release that is applied.
type attempt struct {
	configv1.Release

	// complete says that all of it was applied at least once.
	complete bool
	// isKnown says that how the release came here was recorded before, by this operator or
	// by the one before.
	isKnown  bool
	verified bool
	risks    string
}

// record returns the history with what is known of the present release, the newest entry
// first. The history that is given stays as it is.
func record(history []configv1.UpdateHistory, a attempt, now metav1.Time) []configv1.UpdateHistory {
	if a.Image == "" {
		return []configv1.UpdateHistory{}
	}

	history = slices.Clone(history)
	if len(history) == 0 || !joins(&history[0], a.Release) {
		if len(history) > 0 && history[0].CompletionTime == nil {
			history[0].CompletionTime = &now
		}
		history = slices.Insert(history, 0, configv1.UpdateHistory{
			State: configv1.PartialUpdate, StartedTime: now, Version: a.Version, Image: a.Image,
		})
	}

	first := &history[0]
	first.Verified = first.Verified || a.verified
	if !a.isKnown {
		first.AcceptedRisks = a.risks
	}
	if a.complete && first.State != configv1.CompletedUpdate {
		first.State, first.CompletionTime = configv1.CompletedUpdate, &now
	}

	for len(history) > maxHistory {
		history = prune(history)
	}

	return history
}

// joins reports whether a release is the one of an entry, and fills the entry with what it
// lacks: the same image, or the same version where one of them has no image.
func joins(entry *configv1.UpdateHistory, r configv1.Release) bool {
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

// Weights of entries: the one with the least is left out first.
const (
	weightKept     = 1000  // entries that are never left out
	weightMinorEnd = 30    // the first and the last complete release of a minor version
	weightBetween  = 20    // attempts on the way from one minor version to another
	weightWithin   = -20   // attempts within a minor version
	weightPerEntry = -1.01 // for each entry that is newer
	newestKept     = 5     // how many of the newest are never left out
)

// prune leaves out the entry that tells least, and what would then stand twice in a row.
func prune(history []configv1.UpdateHistory) []configv1.UpdateHistory {
	least := 0
	for i := range history {
		if weight(history, i) < weight(history, least) {
			least = i
		}
	}

	history = slices.Delete(history, least, least+1)
	if least > 0 && least < len(history) && isSame(history[least-1], history[least]) {
		// The newer one stays unless only the older one was complete.
		drop := least
		if history[least].State == configv1.CompletedUpdate && history[least-1].State != configv1.CompletedUpdate {
			drop = least - 1
		}
		history = slices.Delete(history, drop, drop+1)
	}

	return history
}

func isSame(a, b configv1.UpdateHistory) bool { return a.Image == b.Image && a.Version == b.Version }

func weight(history []configv1.UpdateHistory, i int) float64 {
	weight := weightPerEntry * float64(i)
	isComplete := func(entry configv1.UpdateHistory) bool { return entry.State == configv1.CompletedUpdate }
	if i < newestKept || i == len(history)-1 || i == slices.IndexFunc(history, isComplete) {
		weight += weightKept
	}

	switch {
	case isComplete(history[i]):
		if endsMinor(history, i) {
			weight += weightMinorEnd
		}
	case isBetweenMinors(history, i):
		weight += weightBetween
	default:
		weight += weightWithin
	}

	return weight
}

// endsMinor reports whether a complete entry is the first or the last one of its minor
// version.
func endsMinor(history []configv1.UpdateHistory, i int) bool {
	hasOther := func(entries []configv1.UpdateHistory) bool {
		return slices.ContainsFunc(entries, func(entry configv1.UpdateHistory) bool {
			return entry.State == configv1.CompletedUpdate && minorOf(entry.Version) == minorOf(history[i].Version)
		})
	}
	return !hasOther(history[:i]) || !hasOther(history[i+1:])
}

// isBetweenMinors reports whether an entry's neighbours are not both of its minor version.
func isBetweenMinors(history []configv1.UpdateHistory, i int) bool {
	minor := minorOf(history[i].Version)
	return i > 0 && minorOf(history[i-1].Version) != minor || i < len(history)-1 && minorOf(history[i+1].Version) != minor
}

type minor struct{ major, minor uint64 }

// minorOf returns the zero value for what is no version.
func minorOf(version string) minor {
	v, err := semver.Parse(version)
	if err != nil {
		return minor{}
	}
	return minor{v.Major, v.Minor}
}
