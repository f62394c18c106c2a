package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Explanation says why a request gives nothing.
type Explanation struct {
	// Conflict are the fewest facts that together leave nothing to choose, one sentence
	// each: without any one of them there would be something. Never empty.
	Conflict []string
	// Change is the nearest change after which something is chosen; empty when no single
	// one is enough.
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

// wish is a part of a request that can be given up.
type wish struct {
	sentence string
	giveUp   func(*Request)
	// instead says what would be chosen without it.
	instead func(*Result) string
}

// Explain says why Resolve gives an error for a request, and what would help; nil when it
// gives none. It resolves the request up to nine times.
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

	all := wishes(req)
	if !offered(req, catalogs, all) {
		return &Explanation{
			Conflict: notFound.withoutWishes(catalogs),
			Change:   "Add a catalog that has it, or have one selected with spec.source.catalog.selector",
		}
	}

	core := slices.Clone(all)
	for _, w := range all {
		less := slices.DeleteFunc(slices.Clone(core), func(other *wish) bool { return other == w })
		givenUp := slices.DeleteFunc(slices.Clone(all), func(other *wish) bool { return slices.Contains(less, other) })
		if !offered(req, catalogs, givenUp) {
			core = less
		}
	}

	e := &Explanation{Change: nearest(req, catalogs, core)}
	for _, w := range core {
		e.Conflict = append(e.Conflict, w.sentence)
	}

	return e
}

// wishes are the parts of a request, those that are easiest to change first.
func wishes(req Request) []*wish {
	var all []*wish
	if len(req.Channels) > 0 {
		all = append(all, &wish{
			sentence: fmt.Sprintf("only channels %v are asked for", req.Channels),
			giveUp:   func(r *Request) { r.Channels = nil },
			instead: func(r *Result) string {
				if len(r.Channels) == 0 {
					return fmt.Sprintf("Version %s is in no channel: it could be had without spec.source.catalog.channels", r.Version)
				}
				return fmt.Sprintf("Version %s could be had from another channel: add one of %v to spec.source.catalog.channels", r.Version, r.Channels)
			},
		})
	}

	if req.Version != "" {
		all = append(all, &wish{
			sentence: fmt.Sprintf("version %q is asked for", req.Version),
			giveUp:   func(r *Request) { r.Version = "" },
			instead: func(r *Result) string {
				return fmt.Sprintf("Version %s could be had: ask for it in spec.source.catalog.version", r.Version)
			},
		})
	}

	if req.Installed != nil && req.Policy != olmv1.UpgradeConstraintPolicySelfCertified {
		all = append(all, &wish{
			sentence: fmt.Sprintf("only %q, which is installed, and the updates that the catalog allows from it are looked at", req.Installed.Name),
			giveUp:   func(r *Request) { r.Policy = olmv1.UpgradeConstraintPolicySelfCertified },
			instead: func(r *Result) string {
				return fmt.Sprintf("Version %s could be had with upgradeConstraintPolicy %s, at your own risk", r.Version, olmv1.UpgradeConstraintPolicySelfCertified)
			},
		})
	}

	return all
}

// offered reports whether something is offered when some wishes are given up. Several
// catalogs that offer something are no lack of it.
func offered(req Request, catalogs []Catalog, givenUp []*wish) bool {
	_, err := Resolve(without(req, givenUp...), catalogs)
	var ambiguous *AmbiguousError
	return err == nil || errors.As(err, &ambiguous)
}

func without(req Request, givenUp ...*wish) Request {
	for _, w := range givenUp {
		w.giveUp(&req)
	}
	return req
}

// nearest is the first wish that is enough to give up.
func nearest(req Request, catalogs []Catalog, core []*wish) string {
	for _, w := range core {
		result, err := Resolve(without(req, w), catalogs)
		var ambiguous *AmbiguousError
		switch {
		case err == nil:
			return w.instead(result)
		case errors.As(err, &ambiguous):
			return fmt.Sprintf("Catalogs %v have something else to offer", ambiguous.Catalogs)
		}
	}

	return ""
}

// withoutWishes says what stands in the way when nothing but the package is asked for.
func (e *NotFoundError) withoutWishes(catalogs []Catalog) []string {
	_, err := Resolve(Request{Package: e.Package}, catalogs)
	if hints := Hints(err); len(hints) > 0 {
		return hints
	}
	return []string{e.Error()}
}
