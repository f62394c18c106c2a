// Package fetch reads the packages of a catalog from its registry server and converts them for
// the package server.
//
// A catalog is read as a stream. Of bundles only names and versions are kept in memory. Each of
// a few workers reads the heads of channels one at a time.
package fetch
