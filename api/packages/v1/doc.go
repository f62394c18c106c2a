// Package v1 holds the kind PackageManifest of group packages.operators.coreos.com, version v1:
// a package of a catalog, as people and consoles browse it.
//
// Its objects are not stored and cannot be written. The package server makes them of what the
// catalogs of the cluster say, and serves them as an aggregated API.
//
// +kubebuilder:object:generate=true
// +groupName=packages.operators.coreos.com
package v1
