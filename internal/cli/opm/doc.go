// Package opm is the command line of the program opm, for authors of bundles and catalogs. Each command
// has its own file. `mainstay catalog` reuses the commands that are useful together with a cluster.
//
// The names, flags, outputs and exit codes are compatible with existing scripts. The package must not
// link a Kubernetes client, so that the program starts in milliseconds (internal/archtest enforces
// this).
package opm
