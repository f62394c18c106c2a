// Package registry serves a catalog with the gRPC protocol of OLM Classic: the services
// api.Registry and api.ExperimentalRegistry, with health and reflection. `opm serve` runs it in
// the pod of a CatalogSource.
//
// Everything that calls need is in content.Content: an index in memory, and the blobs on disk.
// The package does not access a cluster.
package registry
