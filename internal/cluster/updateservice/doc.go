// Package updateservice is the component update-service: it finds the releases in a
// repository of a registry, makes update graphs of them and of a graph-data folder, and
// serves these to clusters over the Cincinnati protocol.
//
// Everything is looked at again every few minutes. While the registry is away, or the
// graph-data folder has a fault, the graph that was made before goes on being served; the
// log and the metrics tell of it. The same content always gives the same answers, on every
// replica, and to every cluster: whether a known issue applies to a cluster is for the
// cluster to find out.
//
// It needs no Kubernetes. It signs nothing, and recommends nothing that people, and the
// releases themselves, do not.
package updateservice
