// Package inventory lists what is installed on a cluster: ClusterExtensions of OLM v1 and operators of OLM Classic in one
// list.
//
// It reads with the rights of the user. What the user may not read is part of the result.
package inventory
