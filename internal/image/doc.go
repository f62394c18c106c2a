// Package image moves content in and out of container registries: it resolves a tag to
// a digest, pulls an image under the machine's mirrors, credentials, certificates and
// signature policy, unpacks files of it into a directory, and builds and pushes images.
//
// A [Client] does the network part. [Image.Extract] is safe against hostile archives:
// nothing is written outside of the target directory, and every count and size is
// bounded by [Limits]. [Build] makes reproducible OCI images, which [Client.Push]
// uploads and [WriteArchive] writes as a file. [Cache] keeps unpacked images on disk.
// Every error is an [*Error], whose [Kind] tells what should happen next.
//
// It is not a container runtime: it runs nothing, keeps no layer store, applies no
// owners, and knows nothing about what the files mean. Parsing catalogs and bundles is
// the work of the rooms fbc and bundle.
//
// Trust: image signatures are verified by go.podman.io/image's signature package, whose
// default build needs a C library. It is therefore compiled in by the build tag
// containers_image_openpgp, which makes it pure Go. A build without that tag knows
// policies that accept or reject, and refuses every image for which the policy asks for
// a signature: it never lets through what it cannot verify.
package image
