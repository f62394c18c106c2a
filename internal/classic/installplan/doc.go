// Package installplan executes InstallPlans: when a plan may be executed, it has the objects of its
// steps be there, one after the other, and says in its status how far that is.
//
// It does not make plans, and does not unpack bundles. What becomes of a ClusterServiceVersion that a
// plan has created is not its concern either.
package installplan
