// Package v1 holds the kinds of OLM v1, group olm.operatorframework.io, version
// v1: ClusterCatalog, ClusterExtension and ClusterObjectSet, with the names of
// their conditions, reasons, labels and annotations.
//
// It describes data only. What is done with the data lives in the components
// (internal/catalog, internal/extension).
//
// +kubebuilder:object:generate=true
// +groupName=olm.operatorframework.io
package v1
