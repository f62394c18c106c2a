// Package fetch reads the packages of a catalog from the server of the catalog, and makes of them what
// the package server serves.
//
// A catalog is read as a stream: of its bundles only the names and versions are held, and of the
// heads of its channels one at a time for each of a few workers.
package fetch
