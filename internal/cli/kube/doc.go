// Package kube is what the commands that use a cluster share: the selected cluster and its client, completion of
// names in the cluster, the flags --wait and --dry-run, and the output of objects.
//
// Commands without a cluster do not import it, because it links a Kubernetes client.
package kube
