// Package csv is the controller of ClusterServiceVersions: it installs the operator that one
// describes, keeps it installed, and lets a newer one take its place.
//
// What happens next is decided by functions without side effects: Admit says what a
// ClusterServiceVersion's OperatorGroup makes of it, Decide which phase it comes to. Around them
// the Reconciler reads, writes and carries out. What is required and what is made of it stands in
// the rooms requirements, strategy, serving and webhook; groups and copies are the group and copied
// rooms' work.
package csv
