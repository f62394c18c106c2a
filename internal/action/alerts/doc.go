// Package alerts reads the alerts of a cluster's Prometheus, and says which of them matter to
// somebody who updates the cluster.
//
// It judges alerts by their names and labels alone; whether one is right is the business of who
// has written its rule.
package alerts
