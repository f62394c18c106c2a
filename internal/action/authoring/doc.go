// Package authoring holds what the authors of bundles and catalogs do with files on their
// own machine: making the annotations and Dockerfiles of bundles and catalogs, starting a
// package, and finding out what is wrong with a bundle. One struct per operation, as in
// internal/action.
//
// It knows no cluster and no registry. What a bundle is, and what the texts are, stands in
// internal/bundle; rendering, building and pushing in internal/action/catalogs.
package authoring
