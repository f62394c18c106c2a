// Package plan decides whether an operator of OLM Classic can move to a ClusterExtension, and what
// happens to each of its objects.
//
// It is pure. It takes facts about a cluster and a bundle, and returns findings and actions.
// Package migration reads the facts and carries out the actions.
package plan
