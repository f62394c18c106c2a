// Package crdsafety judges changes of CustomResourceDefinitions: whether objects that are
// stored, and clients that work with them, go on under the new definition as they did
// under the old one.
//
// The rules are those of OLM v1's CRD upgrade safety check, and its messages where they
// are documented. What it judges beyond them follows from one question: does the new
// definition accept, keep and mean the same by everything that the old one accepted? A
// change for which that cannot be told is an unknown change, and not safe.
//
// It compares two definitions and nothing else. It knows no stored objects, does not
// compare the versions of one definition with each other, and does not validate
// definitions: the API server does that.
package crdsafety
