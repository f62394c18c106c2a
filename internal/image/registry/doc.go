// Package registry speaks the distribution protocol (OCI distribution specification,
// "/v2/") with one repository of one container registry: manifests, blobs and uploads.
//
// It expects the worst of the other side. Every answer is bounded in size and time,
// passwords go to the registry and to the token server that it names and nowhere else, a
// pause that a registry asks for (429 and 503 with Retry-After) is kept by the whole
// process, and failures that may pass are tried again a few times.
//
// It does not decide which registry is asked: mirrors, trust and logins are the work of
// package image. It verifies no digest, for whoever reads a stream does that on the way.
package registry
