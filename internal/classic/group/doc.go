// Package group reconciles OperatorGroups. It finds the target namespaces of a group and records them in
// its ClusterServiceVersions and in labels of the namespaces. It maintains the list of APIs that the group
// provides, and creates the roles that grant users and operators access to them.
//
// Setup adds its controllers. Pure functions make their decisions; those about a group and its members, which
// other controllers need too, are in package membership. Package csv decides the phases of ClusterServiceVersions, and
// package copied creates copied CSVs.
package group
