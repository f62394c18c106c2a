// Package updatestatus tells how far an update of a cluster is: its control plane, its pools of
// nodes, and what a person should look at.
//
// All of it is judged by one function of what was read; nothing is written. Asking for updates is
// the business of package clusterupdate.
package updatestatus
