// Package v1 holds kinds of group config.openshift.io, version v1: ImageDigestMirrorSet and
// ImageTagMirrorSet, by which a cluster declares mirrors of registries and which tools write
// that mirror content into disconnected clusters, and ClusterOperator, by which the parts of
// a cluster report how they are.
//
// It describes data only: what is pulled from where is decided in internal/pull. Of a
// cluster that has the kinds already, their definitions there hold, not the ones of this
// project.
//
// +kubebuilder:object:generate=true
// +groupName=config.openshift.io
package v1
