// Package crdsafety checks changes of CRDs: whether stored objects, and clients that use
// them, continue to work with the new CRD as with the old one.
//
// The rules are those of OLM v1's CRD upgrade safety check, and so are the messages where
// they are documented. Further rules follow from one question: does the new CRD accept
// and keep everything that the old one accepted, with the same meaning? If that cannot be
// determined, the change is unknown, and not safe.
//
// It only compares two CRDs. It does not read stored objects, does not compare the
// versions of one CRD with each other, and does not validate CRDs: the API server does
// that.
package crdsafety
