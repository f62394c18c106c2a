// Package registry serves a catalog by the protocol that OLM Classic reads catalogs by:
// the services api.Registry and api.ExperimentalRegistry, with health and reflection. It
// is what runs in the pod of a CatalogSource, as `opm serve`.
//
// Whatever a call needs is in content.Content: an index in memory and the rest on disk.
// Nothing here knows of clusters.
package registry
