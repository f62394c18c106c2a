// Package clusterupdate implements what administrators do with the version of a cluster:
// request an update, cancel it, choose a channel, accept risks, roll back, and list the
// recommended updates.
//
// Operations read the ClusterVersion, decide, and write one patch. The decisions are pure
// functions of the ClusterVersion.
package clusterupdate
