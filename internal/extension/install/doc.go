// Package install is the controller of ClusterExtension. It resolves a bundle from the
// catalogs, renders it, creates a ClusterObjectSet with the result, and reports the
// progress of its rollout.
//
// It never writes the objects of a bundle itself: package rollout does.
package install
