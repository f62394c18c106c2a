// Package bundleconfigmap puts the content of a bundle into a ConfigMap of a cluster, from
// which OLM Classic reads a bundle that it has had unpacked by a Job.
//
// It links no typed client, so that the program opm, which that Job runs, starts in
// milliseconds. What a bundle means is internal/bundle's business.
package bundleconfigmap
