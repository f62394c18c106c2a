// Package v1alpha1 contains kinds of OLM Classic, group operators.coreos.com, version
// v1alpha1: the ClusterServiceVersion, which every registry+v1 bundle carries and
// which installs an operator, the CatalogSource, the Subscription that asks for an
// operator of one, and the InstallPlan by which it comes.
//
// It describes data only. Reading a ClusterServiceVersion out of a bundle is
// internal/bundle's job, making objects of it internal/render's.
//
// +kubebuilder:object:generate=true
// +groupName=operators.coreos.com
package v1alpha1
