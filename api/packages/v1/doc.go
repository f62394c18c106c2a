// Package v1 contains the kind PackageManifest of group packages.operators.coreos.com, version v1:
// a package of a catalog, for users and consoles that browse catalogs.
//
// Its objects are not stored and cannot be written. The package server computes them from the
// catalogs of the cluster, and serves them as an aggregated API.
//
// +kubebuilder:object:generate=true
// +groupName=packages.operators.coreos.com
package v1
