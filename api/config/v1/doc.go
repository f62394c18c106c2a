// Package v1 contains kinds of group config.openshift.io, version v1. ImageDigestMirrorSet and
// ImageTagMirrorSet declare mirrors of registries; tools that mirror content into disconnected
// clusters write them. ClusterOperator is the status report of a component. ClusterVersion
// selects the release of the cluster and reports the progress of updates. OperatorHub
// configures the default catalogs.
//
// It contains data types only. Mirrors are resolved in internal/pull, releases are applied in
// internal/cluster. In a cluster that already has these kinds, the CRDs there apply, not those
// of this project.
//
// +kubebuilder:object:generate=true
// +groupName=config.openshift.io
package v1
