// Package store keeps the content of catalogs on disk: for each catalog one file with
// its blobs as JSON lines, followed by an index of them.
//
// The disk is a cache. A file is written beside the one it replaces and renamed into
// its place, so that readers see the old content or the new, never a part; it carries
// checksums, so that a damaged one is noticed and can be unpacked again; and all of it
// may be deleted while the program runs. In memory are only the indexes, about 100
// bytes per blob.
//
// It knows neither images nor HTTP: it unpacks an fs.FS and gives readers.
package store
