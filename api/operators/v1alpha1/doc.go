// Package v1alpha1 contains kinds of OLM Classic, group operators.coreos.com, version
// v1alpha1. A ClusterServiceVersion is part of every registry+v1 bundle and installs an
// operator. A CatalogSource is a catalog of operators, a Subscription selects an operator
// from it, and an InstallPlan installs it.
//
// It contains data types only. internal/bundle reads a ClusterServiceVersion from a
// bundle, and internal/render creates objects from it.
//
// +kubebuilder:object:generate=true
// +groupName=operators.coreos.com
package v1alpha1
