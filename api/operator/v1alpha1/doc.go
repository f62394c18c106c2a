// Package v1alpha1 contains the kind ImageContentSourcePolicy of group operator.openshift.io,
// version v1alpha1: mirrors of registries, as clusters declared them before there was
// ImageDigestMirrorSet. Tools and clusters of that time still have it.
//
// It describes data only: what is pulled from where is decided in internal/pull.
//
// +kubebuilder:object:generate=true
// +groupName=operator.openshift.io
package v1alpha1
