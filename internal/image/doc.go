// Package image moves content in and out of container registries. It resolves a tag to a
// digest, and pulls an image under the machine's mirrors, credentials, certificates and
// signature policy. It unpacks files of an image, and it builds and pushes images.
//
// A [Client] does the network part on top of package registry, which talks to one registry.
// [Image.Extract] writes files into a directory, and [Image.Files] returns them as a
// file system. Both are safe against hostile archives: no path and no link leads
// outside of the target, and [Limits] bound every count and size. [Build] makes
// reproducible OCI images, on top of a [Base] or from scratch. [Client.Push] uploads them,
// [WriteArchive] writes them as a file and [WriteLayout] as a directory. [Cache] keeps
// unpacked images on disk. Every error is an [*Error], whose [Kind] says what should happen
// next.
//
// It is not a container runtime: it runs nothing, keeps no layer store, applies no file
// owners, and does not interpret the files. Packages fbc and bundle parse catalogs and
// bundles.
//
// Trust: the signature package of go.podman.io/image verifies image signatures. Its default
// build needs a C library. The build tag containers_image_openpgp selects the
// implementation in pure Go. A build without that tag supports policies that accept or
// reject, and refuses every image for which the policy requires a signature. It never
// accepts what it cannot verify.
package image
