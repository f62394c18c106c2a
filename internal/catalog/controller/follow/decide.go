package follow

import (
	"fmt"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// facts are what a decision about a catalog depends on.
type facts struct {
	name string
	// isLeader reports whether this replica is the leader, in which case nothing else is known.
	isLeader bool
	// catalog is nil if it does not exist.
	catalog *olmv1.ClusterCatalog
	// retrieval is the state of the retrieval of the wanted source. retrievalError is its error, if it has ended.
	retrieval      pull.State
	retrievalError error
	// stored describes the stored content. It is nil if there is none, if it is damaged, and while there is a
	// retrieval.
	stored *catalogstore.Info
}

// action is what a pass does to the content of a catalog.
type action int

const (
	// The zero value waits for an event. actionLeave leaves the content to the controller of the leader.
	actionLeave action = iota + 1
	actionRemove
	actionKeep
	actionRetrieve
)

// decision is what a pass does.
type decision struct {
	action action
	// source is what is retrieved.
	source catalogstore.Source
	// err is why a retrieval has failed.
	err error
}

// decideContent decides what to do with the content of a catalog.
func decideContent(f facts) decision {
	switch {
	case f.isLeader:
		return decision{action: actionLeave}
	case !isOffered(f.catalog):
		return decision{action: actionRemove}
	}

	wanted := wantedSource(f.catalog)
	switch {
	case wanted == nil:
		return decision{}
	case f.retrievalError != nil:
		return decision{err: fmt.Errorf("following the leader: %w", f.retrievalError)}
	case f.retrieval != pull.None:
		return decision{}
	case f.stored != nil && f.stored.Resolved == wanted.Resolved:
		return decision{action: actionKeep}
	default:
		return decision{action: actionRetrieve, source: *wanted}
	}
}

// isOffered reports whether a catalog exists and its content is to be served.
func isOffered(catalog *olmv1.ClusterCatalog) bool {
	return catalog != nil && catalog.DeletionTimestamp.IsZero() && catalog.Spec.AvailabilityMode != olmv1.AvailabilityModeUnavailable
}

// wantedSource returns the source that the leader has stored. It returns nil if there is none.
//
// The source does not contain the reference that it was resolved from, because the reference in the spec can be
// newer. If this replica becomes the leader, it uses the status instead.
func wantedSource(catalog *olmv1.ClusterCatalog) *catalogstore.Source {
	resolved := catalog.Status.ResolvedSource
	if resolved == nil || resolved.Image == nil {
		return nil
	}

	source := &catalogstore.Source{Resolved: resolved.Image.Ref}
	if unpacked := catalog.Status.LastUnpacked; unpacked != nil {
		source.Since = unpacked.Time
	}

	return source
}
