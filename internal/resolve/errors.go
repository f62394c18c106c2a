package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Query is the part of a request that error messages quote.
type Query struct {
	// Package, Version and Channels are as in the request.
	Package, Version string
	Channels         []string
	// Installed is the installed bundle; nil when nothing is installed.
	Installed *Installed
}

func newErrorQuery(req Request) Query {
	return Query{Package: req.Package, Version: req.Version, Channels: slices.Clone(req.Channels), Installed: req.Installed}
}

// describe formats the query in the form that users, scripts and test suites match:
// `found "package" [matching version "x"] [in channels [a b]]`.
func (q Query) describe(found string) string {
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

// NotFoundError is the error when no catalog offers a bundle that satisfies the request.
type NotFoundError struct {
	Query
	// Hint states which bundles exist and what would help, one sentence each. It is not
	// part of the message.
	Hint []string
}

// Error returns the message for the extension's condition.
func (e *NotFoundError) Error() string { return e.describe("no bundles found") }

// AmbiguousError is the error when several catalogs offer a bundle and none of them
// takes precedence.
type AmbiguousError struct {
	Query
	// Catalogs that offer a bundle, sorted.
	Catalogs []string
	// Priority that they share.
	Priority int32
	// Hint states what would help, one sentence each. It is not part of the message.
	Hint []string
}

// Error returns the message for the extension's condition.
func (e *AmbiguousError) Error() string {
	return e.describe("found bundles") + fmt.Sprintf(" in multiple catalogs with the same priority %v", e.Catalogs)
}

func newAmbiguousError(req Request, offers []*survey) *AmbiguousError {
	e := &AmbiguousError{Query: newErrorQuery(req), Priority: offers[0].catalog.Priority, Hint: ambiguousHint(offers)}
	for _, s := range offers {
		e.Catalogs = append(e.Catalogs, s.catalog.Name)
	}
	return e
}

// Hints returns the advice of an error of this package, one sentence each. It returns nil
// for other errors.
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
