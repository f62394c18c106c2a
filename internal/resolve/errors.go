package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Query is the part of a request that error messages repeat.
type Query struct {
	// Package, Version and Channels are as they were asked for.
	Package, Version string
	Channels         []string
	// Installed is what is installed; nil when nothing is.
	Installed *Installed
}

func newQuery(req Request) Query {
	return Query{Package: req.Package, Version: req.Version, Channels: slices.Clone(req.Channels), Installed: req.Installed}
}

// sentence puts the query into the words that users, scripts and test suites know:
// `found "package" [matching version "x"] [in channels [a b]]`.
func (q Query) sentence(found string) string {
	var s strings.Builder
	if q.Installed != nil {
		fmt.Fprintf(&s, "error upgrading from currently installed version %q: ", q.Installed.Version)
	}

	fmt.Fprintf(&s, "%s for package %q", found, q.Package)
	if q.Version != "" {
		fmt.Fprintf(&s, " matching version %q", q.Version)
	}
	if len(q.Channels) > 0 {
		fmt.Fprintf(&s, " in channels %v", q.Channels)
	}

	return s.String()
}

// NotFoundError says that no catalog offers a bundle that satisfies the request.
type NotFoundError struct {
	Query
	// Hint says what is there instead and what would help, one sentence each. It is no
	// part of the message.
	Hint []string
}

// Error is the sentence that ends up in the extension's condition.
func (e *NotFoundError) Error() string { return e.sentence("no bundles found") }

// AmbiguousError says that several catalogs offer a bundle and none of them comes
// first.
type AmbiguousError struct {
	Query
	// Catalogs that offer a bundle, sorted.
	Catalogs []string
	// Priority that they share.
	Priority int32
	// Hint says what would help, one sentence each. It is no part of the message.
	Hint []string
}

// Error is the sentence that ends up in the extension's condition.
func (e *AmbiguousError) Error() string {
	return e.sentence("found bundles") + fmt.Sprintf(" in multiple catalogs with the same priority %v", e.Catalogs)
}

func newAmbiguousError(req Request, offers []*survey) *AmbiguousError {
	e := &AmbiguousError{Query: newQuery(req), Priority: offers[0].catalog.Priority, Hint: ambiguousHint(offers)}
	for _, s := range offers {
		e.Catalogs = append(e.Catalogs, s.catalog.Name)
	}
	return e
}

// Hints are the sentences that say what would help against an error of this package;
// none for other errors.
func Hints(err error) []string {
	var notFound *NotFoundError
	var ambiguous *AmbiguousError
	var version *InvalidVersionError
	switch {
	case errors.As(err, &notFound):
		return notFound.Hint
	case errors.As(err, &ambiguous):
		return ambiguous.Hint
	case errors.As(err, &version):
		return version.Hint
	default:
		return nil
	}
}
