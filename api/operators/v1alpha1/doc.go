// Package v1alpha1 holds kinds of OLM Classic, group operators.coreos.com, version
// v1alpha1: the ClusterServiceVersion, which every registry+v1 bundle carries, and
// the configuration that a person gives for an operator's Deployments.
//
// It describes data only. Reading a ClusterServiceVersion out of a bundle is
// internal/bundle's job, making objects of it internal/render's.
//
// The kinds are read from bundles and are not served by this project yet, so no CRDs
// are made of them: kubebuilder:skip stands for that.
//
// +kubebuilder:skip
// +kubebuilder:object:generate=true
// +groupName=operators.coreos.com
package v1alpha1
