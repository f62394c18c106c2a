// Package indexdb creates, edits and reads catalogs in the deprecated SQLite format, the
// index.db of index images. It implements every operation of `opm index` and `opm registry`
// on the database itself.
//
// Edit changes a database completely or not at all: it works on a copy, which replaces the
// original on success. Open reads a database and returns its content as the blobs of a
// file-based catalog, one by one. Everything that works on a catalog therefore works on an
// index. Databases of older schema levels are migrated to the latest.
//
// A database may come from an untrusted source. Its size and its values are bounded, views
// are rejected, its triggers never run, and only statements of this package are executed.
//
// This package gets no new features: package fbc defines catalogs. It pulls no images and
// prints nothing.
package indexdb
