// Package serve implements the HTTP API of catalogs on stored content:
//
//	/catalogs/<name>/api/v1/all                                      every blob
//	/catalogs/<name>/api/v1/metas?schema=&package=&name=&fields=     the blobs that match
//	/catalogs/<name>/api/v1/graph?package=&channel=&format=          the upgrade graph of a package
//
// The first two endpoints return JSON lines for GET and HEAD, uncompressed or in the encoding that the
// client prefers. Stored bodies are streamed from disk. Generated bodies are cached in memory, up to a
// limit.
//
// The connections and requests of each client are limited, and each chunk of a body has a write timeout,
// so that no client can block others. The package stores nothing and does not depend on Kubernetes
// objects.
package serve
