// Package hub describes the packages of catalogs for people who choose one: a summary of each package for a list, and all
// that is known about one package before it is installed.
//
// An Index is made from the blobs of a catalog, or from the PackageManifests of OLM Classic. It is small: icons are kept
// once, and the details of packages are compressed. The console and the static site show the same indexes. Content of
// catalogs is untrusted: texts and lists are limited, and icons are of few types.
package hub
