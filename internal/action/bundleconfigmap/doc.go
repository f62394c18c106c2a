// Package bundleconfigmap stores the content of a bundle in a ConfigMap. OLM Classic
// unpacks bundles with a Job and reads the result from the ConfigMap.
//
// It links no typed client, so that the program opm, which that Job runs, starts in
// milliseconds. Package bundle defines the format of bundles.
package bundleconfigmap
