// Package clusteroperator maintains the ClusterOperators of OLM Classic:
// "operator-lifecycle-manager", "operator-lifecycle-manager-catalog" and
// "operator-lifecycle-manager-packageserver". They report whether the components work. The
// first also reports whether installed operators allow a cluster update. The Cluster Version
// Operator waits for them during an update.
//
// The package evaluates the results of reconciliations (Syncs) and CSVs, and writes only
// ClusterOperators. It does nothing in a cluster without that kind.
package clusteroperator
