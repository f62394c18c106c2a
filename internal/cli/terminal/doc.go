// Package terminal is the part that the command lines of Mainstay share: usage errors, exit codes, the
// flag -o, tables, trees, progress output, and the version of the program.
//
// It has no commands except version, and does not depend on a cluster, because opm links it as well.
package terminal
