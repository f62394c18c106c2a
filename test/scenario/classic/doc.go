// Package classic runs operators of OLM Classic for scenarios. It starts an embedded cluster with the
// servers of OLM v1 and OLM Classic, serves a catalog of a folder of bundles to both, and installs,
// updates and removes operators as users do.
//
// No pod runs: a simulated node makes Deployments available. The catalog is therefore not in a pod:
// `opm serve` serves it outside of the cluster, and CatalogSources have its address.
package classic
