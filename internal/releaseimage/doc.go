// Package releaseimage handles release images. [Open] opens an image and returns its payload.
// [Build] builds an image from manifests and component images. [Target] and [Save] mirror an
// image, with all images that it names, to another registry or into a directory. Package
// signature verifies signatures; [Attachments] locates the sigstore signatures of an image.
//
// Package release defines payloads, and package image accesses registries. This package uses no
// Kubernetes API, applies no manifest and prints nothing.
package releaseimage
