// Package updates determines to which releases a cluster can be updated. It queries the update
// service for the graph of the cluster's channel. It queries the cluster's Prometheus for
// whether the known issues of a release apply.
//
// A [Watcher] does both in the background. Its caller sets the [Query], is notified of changes,
// and copies the [Result] to the status of the ClusterVersion. The package writes nothing and
// starts no update. An update service or a Prometheus that fails or does not answer only leads
// to an error in the result.
package updates
