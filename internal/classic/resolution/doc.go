// Package resolution chooses the operators of a namespace: given what catalogs offer, which
// Subscriptions ask for what, and what is installed, it says which bundles are to be there, or
// why no choice is possible.
//
// It is pure. Reading catalogs is the snapshot room's job, asking for a choice and acting on
// it the subscription room's. What extensions of OLM v1 become is internal/resolve's: there one
// bundle is wanted at a time, while here all of a namespace are chosen together.
package resolution
