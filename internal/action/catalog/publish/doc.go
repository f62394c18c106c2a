// Package publish pushes bundles and catalogs to registries. It builds a catalog image from
// catalog files, or from bundles, whose channels it composes. It warns about bundles that a
// cluster cannot install.
//
// It is separate from package catalogs because linking that check costs a program one
// megabyte of memory at its start. The program opm does not need it: it publishes with the
// Dockerfiles of the upstream tools.
package publish
