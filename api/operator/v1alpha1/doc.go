// Package v1alpha1 contains the kind ImageContentSourcePolicy of group operator.openshift.io,
// version v1alpha1, the predecessor of ImageDigestMirrorSet. Old tools and clusters still
// use it.
//
// It contains data types only. Mirrors are resolved in internal/pull.
//
// +kubebuilder:object:generate=true
// +groupName=operator.openshift.io
package v1alpha1
