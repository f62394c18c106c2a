// Package installplan executes InstallPlans. When a plan may be executed, it creates or updates the objects of
// its steps in order, and records the progress in the status.
//
// Package subscription creates InstallPlans, package unpack unpacks bundles, and package csv reconciles the
// ClusterServiceVersions that a plan has created.
package installplan
