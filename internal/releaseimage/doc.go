// Package releaseimage handles release images. It opens an image and returns its payload
// ([Open]), builds an image from manifests and component images ([Build]), and mirrors an image
// with all images that it names to another registry or into a directory ([Mirror]). Package
// signature verifies signatures; [Attachments] locates the sigstore signatures of an image.
//
// Package release defines payloads, and package image accesses registries. This package uses no
// Kubernetes API, applies no manifest and prints nothing.
package releaseimage
