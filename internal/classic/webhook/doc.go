// Package webhook is what olm-operator does with the webhooks that a ClusterServiceVersion describes:
// it checks the descriptions, makes and removes the configurations of admission webhooks, and has the
// API server convert objects by conversion webhooks.
//
// The Services in front of the webhooks and their certificates are the serving room's; when an
// operator is installed, and what becomes of it while its webhooks are missing, is decided by the
// controller of ClusterServiceVersions, which calls this package.
package webhook
