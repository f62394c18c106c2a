// Package webhook manages the webhooks that a ClusterServiceVersion describes. It validates the descriptions,
// creates and deletes the configurations of admission webhooks, and sets conversion webhooks in CRDs.
//
// Package serving manages the Services and certificates of the webhooks. Package csv calls this package, and
// decides which phase missing webhooks lead to.
package webhook
