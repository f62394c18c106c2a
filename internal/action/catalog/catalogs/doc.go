// Package catalogs implements the operations of bundle and catalog authors: render,
// validate, build and push. One struct per operation, as in internal/action.
//
// It works on files and registries and knows no cluster: nothing that it imports links a
// Kubernetes client, so that the program opm starts in milliseconds.
package catalogs
