// Package authoring implements operations of bundle and catalog authors on local files:
// generating annotations and Dockerfiles, starting a package, and validating a bundle. Each
// operation is a struct, as in internal/action.
//
// It needs no cluster and no registry. Package bundle defines the format of bundles and the
// content of the files. Package catalogs renders, builds and pushes.
package authoring
