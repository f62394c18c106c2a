// Package updatestatus reports the progress of a cluster update: its control plane, its
// pools of nodes, and problems that need attention.
//
// [Assess] computes the status from objects that were read; nothing is written. Package
// clusterupdate requests updates.
package updatestatus
