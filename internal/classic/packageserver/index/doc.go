// Package index stores the packages of all catalogs of a cluster for the package server. Fields
// that lists and selectors need are stored as they are, the rest as compressed JSON.
//
// It is only an in-memory cache. Package fetch reads the packages of catalogs, and package
// serve authorizes clients.
package index
