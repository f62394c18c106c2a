// Package serve answers the HTTP contract of catalogs from stored content:
//
//	/catalogs/<name>/api/v1/all                            every blob
//	/catalogs/<name>/api/v1/metas?schema=&package=&name=   the blobs that match
//
// Both give JSON lines, to GET and HEAD. A body is streamed from disk, and nothing of it
// is kept. It stores nothing and knows no Kubernetes objects.
package serve
