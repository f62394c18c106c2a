// Package csvinfo derives facts from a CSV: the APIs that it provides and requires, whether it
// is a copied CSV, the namespaces that it can watch, its replacements, and the labels of its
// objects.
//
// The package has no side effects and takes no decisions. Package csv decides on the progress
// of an installation, and package membership on conflicts between APIs.
package csvinfo
