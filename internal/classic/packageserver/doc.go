// Package packageserver is the component package-server: it reads the packages of all catalogs of the
// cluster, keeps up with them, and serves them as PackageManifests.
//
// A catalog is read when the connection to it comes up, when its CatalogSource changes in what could
// change its content, and after an interval. While it cannot be reached its packages are not served.
// Every replica does all of it for itself.
package packageserver
