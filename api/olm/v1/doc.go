// Package v1 contains the kinds of OLM v1, group olm.operatorframework.io, version
// v1: ClusterCatalog, ClusterExtension and ClusterObjectSet, with the names of
// their conditions, reasons, labels and annotations.
//
// It contains data types only. Their controllers are in internal/catalog and
// internal/extension.
//
// +kubebuilder:object:generate=true
// +groupName=olm.operatorframework.io
package v1
