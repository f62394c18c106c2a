// Package serving issues the certificates of extensions' webhooks, so that a cluster
// needs no certificate manager for them. Rendered objects request certificates by
// annotations (see internal/render). This controller maintains the Secret that a Service
// requests, and writes its authorities to the caBundle of the webhooks.
//
// Each Secret has its own authority, which signs one certificate. The authority's key is
// discarded, so that it cannot issue another. A new certificate has a new authority. That
// is first trusted in addition to the old one, and the certificate is used when every
// webhook has it, so a renewal interrupts nothing.
//
// It writes only caBundle of these objects, with its own field manager. Rollouts neither
// set nor remove that field.
package serving
