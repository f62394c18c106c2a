// Package rollout is the controller of ClusterObjectSet: it brings the objects of a
// revision to the cluster phase by phase, keeps them as the revision says, and takes
// them away when the revision is archived or deleted.
//
// It writes as the ServiceAccount that the revision names, and watches the metadata
// of exactly the kinds in use. What revisions there are, and which of them are
// active, is decided by the controller of ClusterExtension.
package rollout
