// Package marketplace keeps the default catalogs of a platform: CatalogSources that come as
// manifests with it, and that the OperatorHub "cluster" turns on and off. It reports as
// ClusterOperator "marketplace".
//
// What is in a catalog, and how it is served, is none of its business.
package marketplace
