// Package group is what olm-operator does with OperatorGroups: it finds the namespaces that a group
// targets, tells the ClusterServiceVersions and the namespaces, keeps the list of the APIs that the
// group provides, and makes the roles by which people and operators get at them.
//
// Setup adds its controllers. What they decide is decided by functions without side effects, of which
// Decide, Others, Of, Annotated and Covers are also for the controller of ClusterServiceVersions. What
// becomes of a ClusterServiceVersion is decided there; copies of it are made by the copied room.
package group
