// Package configmapserver is the component configmap-server: it serves a catalog that is in a
// ConfigMap, for CatalogSources of the types configmap and internal.
//
// Parse converts the data of the ConfigMap, in the format of package manifests, to the blobs of a
// file-based catalog. Package registry serves them.
package configmapserver
