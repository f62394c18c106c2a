// Package migration moves operators of OLM Classic to ClusterExtensions of OLM v1, in place: no
// object of the operator is deleted and created again, and no pod restarts if its template stays
// the same.
//
// The decisions are in package plan. This package reads the facts, keeps a snapshot of what it
// removes, and carries out the steps. Each step derives from the cluster and the snapshot what is
// left to do. A program that stops at any point therefore continues when it is started again, or
// goes back with Rollback.
package migration
