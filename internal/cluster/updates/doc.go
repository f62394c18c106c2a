// Package updates finds out which releases a cluster can be updated to: it asks the update
// service for the graph of the cluster's channel, and the cluster's Prometheus whether the
// known issues of a release apply to the cluster.
//
// A [Watcher] does both in the background. Whoever reports the cluster's version tells it
// what the cluster is, is told when something changed, and puts the [Result] into the
// status of the ClusterVersion. It writes nothing itself, decides on no update, and an
// update service or a Prometheus that fails, or never answers, is told of and harms nothing.
package updates
