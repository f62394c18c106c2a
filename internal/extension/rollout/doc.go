// Package rollout is the controller of ClusterObjectSet. It applies the objects of a
// revision phase by phase, corrects drift, and removes them when the revision is archived
// or deleted.
//
// It impersonates the service account that the revision names, and watches the metadata
// of exactly the kinds in use. The controller of ClusterExtension creates and archives
// revisions.
package rollout
