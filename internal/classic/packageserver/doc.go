// Package packageserver implements the component package-server. It reads the packages of all
// catalogs of the cluster and serves them as PackageManifests.
//
// It reads a catalog when the connection to it is established, when its CatalogSource changes
// in a way that can change the content, and periodically. While a catalog cannot be reached,
// its packages are not served. Every replica works on its own.
package packageserver
