// Package v1 holds kinds of group config.openshift.io, version v1: ImageDigestMirrorSet and
// ImageTagMirrorSet, by which a cluster declares mirrors of registries and which tools write
// that mirror content into disconnected clusters; ClusterOperator, by which the parts of a
// cluster report how they are; and ClusterVersion, which says what release the cluster is to
// be at and how far it is.
//
// It describes data only: what is pulled from where is decided in internal/pull, what becomes
// of a wanted release in internal/cluster. Of a cluster that has the kinds already, their
// definitions there hold, not the ones of this project.
//
// +kubebuilder:object:generate=true
// +groupName=config.openshift.io
package v1
