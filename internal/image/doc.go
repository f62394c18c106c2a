// Package image moves content in and out of container registries: it resolves a tag to
// a digest, pulls an image under the machine's mirrors, credentials, certificates and
// signature policy, unpacks files of it, and builds and pushes images.
//
// A [Client] does the network part, over package registry, which speaks to one registry.
// [Image.Extract] writes files into a directory, [Image.Files] gives them to be read once;
// both are safe against hostile archives: nothing lies or leads outside of the target, and
// every count and size is bounded by [Limits]. [Build] makes reproducible OCI images, upon
// a [Base] or from nothing, which [Client.Push] uploads, [WriteArchive] writes as a file
// and [WriteLayout] as a directory. [Cache] keeps unpacked images on disk. Every error is
// an [*Error], whose [Kind] tells what should happen next.
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
