// Package updateservice is the update-service component. It finds the releases in a repository
// of a registry and builds update graphs from them and from a graph-data folder. It serves these
// to clusters over the Cincinnati protocol.
//
// It scans its sources every few minutes. While the registry is unavailable, or the graph-data
// folder is invalid, the last graph is served; the log and the metrics report the error. The
// same content leads to the same responses, on every replica and for every cluster: each cluster
// evaluates itself whether a known issue applies to it.
//
// It needs no Kubernetes API. It signs nothing, and it recommends no update that neither
// graph-data nor the releases recommend.
package updateservice
