// Package serve answers requests for PackageManifests as an API server does, so that the API server of
// a cluster can pass them on: lists, gets and watches with selectors, tables for people, pictures,
// discovery and OpenAPI. Who asks, and whether they may, the cluster is asked.
//
// It is no general API server: there is one kind, which cannot be written, and all of it is in memory.
package serve
