// Package former reads what another implementation of OLM v1 has installed for an extension: Helm
// releases, and ClusterExtensionRevisions, which ClusterObjectSets have replaced. Package install takes
// such an installation over in place: its objects become those of a revision.
//
// It decides nothing about versions and writes no objects of bundles.
package former
