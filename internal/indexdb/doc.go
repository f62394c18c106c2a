// Package indexdb makes, edits and reads catalogs in the deprecated SQLite format, the
// index.db of index images, for people who still have them: every operation of
// `opm index` and `opm registry` on the database itself is here.
//
// Edit changes a database as a whole or not at all: it works on a copy, which takes the
// place of the original when everything went well. Open reads one and gives its content
// as the blobs of a file-based catalog, one by one, so that whatever works on a catalog
// works on an index. Databases of older schema levels are migrated to the latest on the
// way.
//
// A database may come from anybody. Its size and its values are bounded, its views are
// refused, its triggers never run, and every statement that is run is one of this package.
//
// It is not the place for new features: what a catalog can say is defined by package fbc.
// It pulls no images and prints nothing; those who call it do.
package indexdb
