// Package clusteroperator reports, as ClusterOperators, whether the parts of OLM Classic work:
// "operator-lifecycle-manager", which tells too whether installed operators let the cluster be
// updated, "operator-lifecycle-manager-catalog" and "operator-lifecycle-manager-packageserver".
// Whoever updates the cluster waits for them.
//
// It judges by how the passes of the reconcilers end (Syncs) and by ClusterServiceVersions, and
// writes only those objects. A cluster without ClusterOperators gets none.
package clusteroperator
