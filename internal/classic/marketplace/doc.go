// Package marketplace reconciles the default catalogs of a platform: CatalogSources from the
// platform's manifests, which the OperatorHub "cluster" enables and disables. It reports as
// ClusterOperator "marketplace".
//
// The package does not deal with the content of catalogs or how they are served.
package marketplace
