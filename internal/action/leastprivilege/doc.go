// Package leastprivilege writes the account that an extension can be installed as, with
// the rules that it needs and no others: from a bundle that a person has at hand, or from
// the one that catalogs offer.
//
// It changes nothing on a cluster, and needs none when the bundle or the catalog is a
// folder or an image. Which rules those are is internal/rbac's business; that an account
// has them is checked by the operator-controller, before each installation and update.
package leastprivilege
