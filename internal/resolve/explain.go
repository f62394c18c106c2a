package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Explanation states why a request cannot be resolved.
type Explanation struct {
	// Conflict is a minimal set of facts that leave no candidate, one sentence each.
	// Without any one of them there would be a candidate. Never empty.
	Conflict []string
	// Change is the easiest change that makes the request succeed; empty when no single
	// change is enough.
	Change string
}

// String returns the facts and the change.
func (e *Explanation) String() string {
	text := strings.Join(e.Conflict, "; ")
	if e.Change != "" {
		text += ". " + e.Change
	}
	return text
}

// restriction is an optional part of a request. An explanation drops restrictions to
// find those in conflict.
type restriction struct {
	sentence   string
	removeFrom func(*Request)
	// describeAlternative describes the result without this restriction.
	describeAlternative func(*Result) string
}

// Explain returns why Resolve fails for a request and what would help. It returns nil
// when Resolve succeeds. It resolves the request up to nine times.
func Explain(req Request, catalogs []Catalog) *Explanation {
	_, err := Resolve(req, catalogs)
	var notFound *NotFoundError
	var ambiguous *AmbiguousError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ambiguous):
		return &Explanation{
			Conflict: append([]string{err.Error()}, ambiguous.Hint[:len(ambiguous.Catalogs)]...),
			Change:   "Give one of the catalogs a higher priority, or select one with spec.source.catalog.selector",
		}
	case !errors.As(err, &notFound):
		return &Explanation{Conflict: []string{err.Error()}, Change: "Mend it: " + strings.Join(Hints(err), "; ")}
	}

	all := listRestrictions(req)
	if !hasCandidate(req, catalogs, all) {
		return &Explanation{
			Conflict: notFound.hintsWithoutRestrictions(catalogs),
			Change:   "Add a catalog that has it, or have one selected with spec.source.catalog.selector",
		}
	}

	core := slices.Clone(all)
	for _, w := range all {
		reduced := slices.DeleteFunc(slices.Clone(core), func(other *restriction) bool { return other == w })
		dropped := slices.DeleteFunc(slices.Clone(all), func(other *restriction) bool { return slices.Contains(reduced, other) })
		if !hasCandidate(req, catalogs, dropped) {
			core = reduced
		}
	}

	e := &Explanation{Change: findNearestChange(req, catalogs, core)}
	for _, w := range core {
		e.Conflict = append(e.Conflict, w.sentence)
	}

	return e
}

// listRestrictions returns the restrictions of a request, the easiest to change first.
func listRestrictions(req Request) []*restriction {
	var all []*restriction
	if len(req.Channels) > 0 {
		all = append(all, &restriction{
			sentence:   fmt.Sprintf("only channels %v are asked for", req.Channels),
			removeFrom: func(r *Request) { r.Channels = nil },
			describeAlternative: func(r *Result) string {
				if len(r.Channels) == 0 {
					return fmt.Sprintf("Version %s is in no channel: it could be had without spec.source.catalog.channels", r.Version)
				}
				return fmt.Sprintf("Version %s could be had from another channel: add one of %v to spec.source.catalog.channels", r.Version, r.Channels)
			},
		})
	}

	if req.Version != "" {
		all = append(all, &restriction{
			sentence:   fmt.Sprintf("version %q is asked for", req.Version),
			removeFrom: func(r *Request) { r.Version = "" },
			describeAlternative: func(r *Result) string {
				return fmt.Sprintf("Version %s could be had: ask for it in spec.source.catalog.version", r.Version)
			},
		})
	}

	if req.Installed != nil && req.Policy != olmv1.UpgradeConstraintPolicySelfCertified {
		all = append(all, &restriction{
			sentence:   fmt.Sprintf("only %q, which is installed, and the updates that the catalog allows from it are looked at", req.Installed.Name),
			removeFrom: func(r *Request) { r.Policy = olmv1.UpgradeConstraintPolicySelfCertified },
			describeAlternative: func(r *Result) string {
				return fmt.Sprintf("Version %s could be had with upgradeConstraintPolicy %s, at your own risk", r.Version, olmv1.UpgradeConstraintPolicySelfCertified)
			},
		})
	}

	return all
}

// hasCandidate reports whether a candidate exists when some restrictions are dropped. An
// ambiguous result counts as a candidate.
func hasCandidate(req Request, catalogs []Catalog, dropped []*restriction) bool {
	_, err := Resolve(dropRestrictions(req, dropped...), catalogs)
	var ambiguous *AmbiguousError
	return err == nil || errors.As(err, &ambiguous)
}

func dropRestrictions(req Request, dropped ...*restriction) Request {
	for _, w := range dropped {
		w.removeFrom(&req)
	}
	return req
}

// findNearestChange describes the first restriction that is enough to drop, with its
// alternative. It returns an empty string when no single one is enough.
func findNearestChange(req Request, catalogs []Catalog, core []*restriction) string {
	for _, w := range core {
		result, err := Resolve(dropRestrictions(req, w), catalogs)
		var ambiguous *AmbiguousError
		switch {
		case err == nil:
			return w.describeAlternative(result)
		case errors.As(err, &ambiguous):
			return fmt.Sprintf("Catalogs %v have something else to offer", ambiguous.Catalogs)
		}
	}

	return ""
}

// hintsWithoutRestrictions returns the hints for a request that names only the package.
func (e *NotFoundError) hintsWithoutRestrictions(catalogs []Catalog) []string {
	_, err := Resolve(Request{Package: e.Package}, catalogs)
	if hints := Hints(err); len(hints) > 0 {
		return hints
	}
	return []string{e.Error()}
}
