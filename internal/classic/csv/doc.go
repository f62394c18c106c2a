// Package csv reconciles ClusterServiceVersions. It installs the operator that a
// ClusterServiceVersion describes, keeps it installed, and replaces it by a newer version.
//
// Pure functions make the decisions: Admit checks a ClusterServiceVersion against its OperatorGroup,
// and Decide chooses the next phase. The factReader reads the facts for them, and the installer carries
// out the outcome. Further controllers retry installations that lacked rights, and delete what
// ClusterServiceVersions left behind. The packages requirements, strategy, serving and webhook compute what is required and
// what is created. The packages group and copied reconcile OperatorGroups and copied CSVs.
package csv
