// Package releaseimage has the images of releases: it opens one and gives its payload
// ([Open]), puts one together from manifests and from the images of components ([Build]), and
// copies one with all that it needs to another registry or into a folder ([Mirror]). Who
// signed them is the business of package signature; where sigstore's signatures lie beside
// an image is said here ([Attachments]).
//
// What a payload means is known by room release, and how registries are spoken to by room
// image. Nothing here asks a cluster, applies a manifest or prints.
package releaseimage
