// Package index holds the packages of all catalogs of a cluster, ready to be served as
// PackageManifests: what lists and selectors ask for in the open, the rest as compressed JSON.
//
// It is a cache in memory and nothing else: where packages come from is internal/classic/packageserver/fetch's
// business, who may see them internal/classic/packageserver/serve's.
package index
