// Package alerts reads the alerts of a cluster's Prometheus and selects those that matter
// for a cluster update.
//
// It evaluates only the names and labels of alerts.
package alerts
