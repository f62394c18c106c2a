// Package registry implements the client side of the distribution protocol (OCI
// distribution specification, "/v2/") for one repository of one container registry:
// manifests, blobs and uploads.
//
// It does not trust the registry. Every response is bounded in size and time. Passwords are
// sent only to the registry and to the token server that it names. The whole process
// honours a pause that a registry requests (429 and 503 with Retry-After). Transient
// failures are retried a few times.
//
// Package image decides which registry to ask, which images to trust and which logins to
// use. This package does not verify digests; the reader of a stream does.
package registry
