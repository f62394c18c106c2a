// Package serve implements the extension API server for PackageManifests: lists, gets and
// watches with selectors, tables, icons, discovery and OpenAPI. Authentication and
// authorization are delegated to the cluster.
//
// It is not a general API server: there is one read-only kind, and all data is in memory.
package serve
