// Package serve answers the HTTP contract of catalogs from stored content:
//
//	/catalogs/<name>/api/v1/all                                      every blob
//	/catalogs/<name>/api/v1/metas?schema=&package=&name=&fields=     the blobs that match
//	/catalogs/<name>/api/v1/graph?package=&channel=&format=          a package's update graph
//
// The first two give JSON lines, to GET and HEAD, as they are or in the compressed form
// that the client likes best. What stands on disk is streamed from there, and nothing of
// it is kept; what has to be made of it is kept in memory, up to a bound.
//
// Clients are bounded in what they may ask for at once, and none can hold up the others:
// each chunk of a body has a time limit. It stores nothing and knows no Kubernetes
// objects.
package serve
