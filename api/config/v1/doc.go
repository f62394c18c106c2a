// Package v1 holds the kinds of group config.openshift.io, version v1, by which a cluster
// declares mirrors of registries: ImageDigestMirrorSet and ImageTagMirrorSet. Tools that
// mirror content into disconnected clusters write them.
//
// It describes data only: what is pulled from where is decided in internal/pull. Of a
// cluster that has the kinds already, their definitions there hold, not the ones of this
// project.
//
// +kubebuilder:object:generate=true
// +groupName=config.openshift.io
package v1
