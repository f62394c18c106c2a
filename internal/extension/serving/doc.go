// Package serving issues the certificates of extensions' webhooks, so that a cluster
// needs no certificate manager for them. Rendered objects say by annotations what they
// need (see internal/render); this controller keeps the Secret that a Service asks for,
// and puts the authorities that it is trusted by into the caBundle of the webhooks.
//
// Each Secret has an authority of its own, which signs one certificate: its key is
// thrown away, so that nobody can issue another. A new certificate comes with a new
// authority. It is first trusted beside the old one, and used when every webhook knows
// it; so a renewal interrupts nothing.
//
// It writes caBundle, and nothing else of these objects, under a field manager of its
// own. Roll-outs neither set that field nor take it away.
package serving
