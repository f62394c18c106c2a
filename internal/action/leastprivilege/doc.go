// Package leastprivilege generates a service account for an extension with the minimal RBAC
// rules. The bundle is a local one, or one from a catalog.
//
// It does not change a cluster. It needs no cluster if the bundle or the catalog is a
// folder or an image. Package rbac computes the rules. operator-controller checks them
// before each installation and update.
package leastprivilege
