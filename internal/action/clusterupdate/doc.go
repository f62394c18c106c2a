// Package clusterupdate is what administrators do with the version of a cluster: ask for an
// update, take it back, choose a channel, accept risks, roll back, and see how far an update
// is.
//
// What is asked for and whether it is let through is decided by functions of the
// ClusterVersion alone; operations read it, decide, and write one patch.
package clusterupdate
