// Package resolution chooses the operators of a namespace. Its input is the content of
// catalogs, the Subscriptions, and the installed CSVs. It returns the bundles to install, or
// the reasons why no choice is possible.
//
// The package has no side effects. Package snapshot reads catalogs; package subscription calls
// the resolver and acts on its choices. Extensions of OLM v1 are resolved by internal/resolve,
// one bundle at a time; here all operators of a namespace are chosen together. Both use
// internal/resolve/requirement and internal/resolve/solve.
package resolution
