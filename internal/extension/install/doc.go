// Package install is the controller of ClusterExtension: it chooses a bundle from
// the catalogs, renders it, writes the result as a ClusterObjectSet, and reports how
// the rollout of that set goes.
//
// It never writes the objects of a bundle itself: that is the rollout package's job.
package install
