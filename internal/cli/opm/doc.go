// Package opm is the command line of the program opm, which authors of bundles and
// catalogs use: each command in a file of its own. `mainstay catalog` has those that
// people use together with a cluster.
//
// Scripts call these commands by the names, flags, outputs and exit codes that they have
// had for years. Nothing here may link a Kubernetes client: the program has to start in
// milliseconds (internal/archtest holds that).
package opm
