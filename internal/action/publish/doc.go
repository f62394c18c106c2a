// Package publish brings bundles and catalogs into registries: bundles as they are, and
// catalogs from files or from bundles, whose channels it composes. It judges what it
// publishes by what a cluster can do with it.
//
// It is apart from package catalogs because that judgement costs a program that links it
// a megabyte of memory at its start: the program opm publishes by the Dockerfiles of the
// field's tools, and does without.
package publish
