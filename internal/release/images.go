package release

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Version and kinds in image-references.
const (
	imageStreamVersion = "image.openshift.io/v1"
	imageStreamKind    = "ImageStream"
	dockerImageKind    = "DockerImage"
)

// Annotations of images.
const (
	// AnnotationCommit is the commit of the image's source.
	AnnotationCommit = "io.openshift.build.commit.id"
	// AnnotationCommitRef is the branch or tag of that commit.
	AnnotationCommitRef = "io.openshift.build.commit.ref"
	// AnnotationSource is the repository of that commit.
	AnnotationSource = "io.openshift.build.source-location"
	// AnnotationVersions is a comma-separated list of versions of components in an image, as
	// name=version.
	AnnotationVersions = "io.openshift.build.versions"
	// AnnotationVersionNames is a comma-separated list of display names of these components, as
	// name=text.
	AnnotationVersionNames = "io.openshift.build.version-display-names"
)

// ImageReferences are the images of a release.
type ImageReferences struct {
	// Name is the version of the release.
	Name string
	// Created is when the release was created; the zero time if that is not known.
	Created metav1.Time
	// Annotations describe the input of the release.
	Annotations map[string]string
	// Tags are the images, in order.
	Tags []ImageTag
}

// ImageTag is an image of a release.
type ImageTag struct {
	// Name is the name of the image. It is unique.
	Name string
	// PullSpec is the reference of the image, by digest.
	PullSpec string
	// Annotations describe the source of the image.
	Annotations map[string]string
}

// imageStream contains the fields of an ImageStream that a release uses.
type imageStream struct {
	Kind       string              `json:"kind"`
	APIVersion string              `json:"apiVersion"`
	Metadata   imageStreamMetadata `json:"metadata"`
	Spec       imageStreamSpec     `json:"spec"`
}

type imageStreamMetadata struct {
	Name              string            `json:"name"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

type imageStreamSpec struct {
	Tags []imageStreamTag `json:"tags,omitempty"`
}

type imageStreamTag struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations,omitempty"`
	From        *imageStreamFrom  `json:"from"`
}

type imageStreamFrom struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// ParseImageReferences parses and validates image-references in JSON or YAML. It does not check
// whether images are named by digest: those of a component need not be. Its error joins all
// problems.
func ParseImageReferences(data []byte) (ImageReferences, error) {
	return ParseUnnamedImageReferences(data, "")
}

// ParseUnnamedImageReferences is ParseImageReferences for a list that may have no name, such as
// that of a component or a directory of manifests. Such a list gets the given name.
func ParseUnnamedImageReferences(data []byte, name string) (ImageReferences, error) {
	var stream imageStream
	if err := decodeYAML(data, &stream); err != nil {
		return ImageReferences{}, err
	}

	var errs []error
	if stream.Kind != imageStreamKind || stream.APIVersion != imageStreamVersion {
		errs = append(errs, fmt.Errorf("must be an %s of %s, not a %q of %q", imageStreamKind, imageStreamVersion, stream.Kind, stream.APIVersion))
	}

	images := ImageReferences{Name: cmp.Or(stream.Metadata.Name, name), Created: stream.Metadata.CreationTimestamp, Annotations: stream.Metadata.Annotations}
	for i, tag := range stream.Spec.Tags {
		if tag.From == nil || tag.From.Kind != dockerImageKind {
			errs = append(errs, fmt.Errorf("spec.tags[%d] %q: from.kind must be %s", i, tag.Name, dockerImageKind))
			continue
		}
		images.Tags = append(images.Tags, ImageTag{Name: tag.Name, PullSpec: tag.From.Name, Annotations: tag.Annotations})
	}

	if len(errs) == 0 {
		errs = append(errs, images.checkTagNames()...)
	}

	return images, errors.Join(errs...)
}

// checkTagNames returns the errors of names.
func (r ImageReferences) checkTagNames() []error {
	var errs []error
	if r.Name == "" {
		errs = append(errs, errors.New("metadata.name is missing"))
	}

	seen := map[string]bool{}
	for i, tag := range r.Tags {
		switch {
		case tag.Name == "":
			errs = append(errs, fmt.Errorf("spec.tags[%d]: name is missing", i))
		case seen[tag.Name]:
			errs = append(errs, fmt.Errorf("spec.tags[%d]: there is an image %q already", i, tag.Name))
		case tag.PullSpec == "":
			errs = append(errs, fmt.Errorf("spec.tags[%d] %q: from.name is missing", i, tag.Name))
		}
		seen[tag.Name] = true
	}

	return errs
}

// pinnedPattern matches a pull spec by digest: a repository without whitespace, and a SHA-256 or
// SHA-512 digest.
var pinnedPattern = regexp.MustCompile(`^[^\s@]+@(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

// CheckPinned joins an error for each image that is not named by digest, because the image of a
// tag may change after the release was signed.
func (r ImageReferences) CheckPinned() error {
	var errs []error
	for i, tag := range r.Tags {
		if !pinnedPattern.MatchString(tag.PullSpec) {
			errs = append(errs, fmt.Errorf("spec.tags[%d] %q: from.name must be a pull spec by digest, not %q", i, tag.Name, tag.PullSpec))
		}
	}
	return errors.Join(errs...)
}

// PullSpec returns the reference of an image of the release.
func (r ImageReferences) PullSpec(name string) (pullSpec string, ok bool) {
	for _, tag := range r.Tags {
		if tag.Name == name {
			return tag.PullSpec, true
		}
	}
	return "", false
}

// Encode encodes the images as image-references. Equal images have equal encodings. All images
// must be named by digest. Other fields of an ImageStream are not written.
func (r ImageReferences) Encode() ([]byte, error) {
	if err := errors.Join(append(r.checkTagNames(), r.CheckPinned())...); err != nil {
		return nil, err
	}

	stream := imageStream{
		Kind:       imageStreamKind,
		APIVersion: imageStreamVersion,
		Metadata:   imageStreamMetadata{Name: r.Name, CreationTimestamp: r.Created, Annotations: r.Annotations},
	}
	for _, tag := range r.Tags {
		stream.Spec.Tags = append(stream.Spec.Tags, imageStreamTag{
			Name: tag.Name, Annotations: tag.Annotations, From: &imageStreamFrom{Kind: dockerImageKind, Name: tag.PullSpec},
		})
	}
	return encodeJSON(stream)
}
