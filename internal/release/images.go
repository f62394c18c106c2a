package release

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What image-references is.
const (
	imageStreamVersion = "image.openshift.io/v1"
	imageStreamKind    = "ImageStream"
	dockerImageKind    = "DockerImage"
)

// Annotations of images.
const (
	// AnnotationCommit is the commit that an image was built from.
	AnnotationCommit = "io.openshift.build.commit.id"
	// AnnotationCommitRef is the branch or tag of that commit.
	AnnotationCommitRef = "io.openshift.build.commit.ref"
	// AnnotationSource is the repository of that commit.
	AnnotationSource = "io.openshift.build.source-location"
	// AnnotationVersions lists versions of components in an image, as name=version with
	// commas.
	AnnotationVersions = "io.openshift.build.versions"
	// AnnotationVersionNames lists what the components are called, as name=text with
	// commas.
	AnnotationVersionNames = "io.openshift.build.version-display-names"
)

// ImageReferences are the images of a release.
type ImageReferences struct {
	// Name is the version of the release.
	Name string
	// Created is when the release was made. It is the zero time when that is not known.
	Created metav1.Time
	// Annotations say what the release was made from.
	Annotations map[string]string
	// Tags are the images in their order.
	Tags []ImageTag
}

// ImageTag is an image of a release.
type ImageTag struct {
	// Name is what manifests and people call it. It is unique.
	Name string
	// PullSpec is where it is, by digest.
	PullSpec string
	// Annotations say what it was built from.
	Annotations map[string]string
}

// imageStream is an ImageStream as far as a release uses it.
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

// ParseImageReferences reads image-references, in JSON or YAML, and checks it, but for whether the images
// are named by digest: those that a component brings into a release need not be. Its error
// joins all that is wrong.
func ParseImageReferences(data []byte) (ImageReferences, error) {
	return ParseUnnamedImageReferences(data, "")
}

// ParseUnnamedImageReferences is ParseImageReferences for a list that need not have a name yet, as
// that of a component or of a folder of manifests. One without a name gets the given one.
func ParseUnnamedImageReferences(data []byte, name string) (ImageReferences, error) {
	var stream imageStream
	if err := decodeYAML(data, &stream); err != nil {
		return ImageReferences{}, err
	}

	var wrong []error
	if stream.Kind != imageStreamKind || stream.APIVersion != imageStreamVersion {
		wrong = append(wrong, fmt.Errorf("must be an %s of %s, not a %q of %q", imageStreamKind, imageStreamVersion, stream.Kind, stream.APIVersion))
	}

	images := ImageReferences{Name: cmp.Or(stream.Metadata.Name, name), Created: stream.Metadata.CreationTimestamp, Annotations: stream.Metadata.Annotations}
	for i, tag := range stream.Spec.Tags {
		if tag.From == nil || tag.From.Kind != dockerImageKind {
			wrong = append(wrong, fmt.Errorf("spec.tags[%d] %q: from.kind must be %s", i, tag.Name, dockerImageKind))
			continue
		}
		images.Tags = append(images.Tags, ImageTag{Name: tag.Name, PullSpec: tag.From.Name, Annotations: tag.Annotations})
	}

	if len(wrong) == 0 {
		wrong = append(wrong, images.check()...)
	}

	return images, errors.Join(wrong...)
}

// check returns all that is wrong with the names.
func (r ImageReferences) check() []error {
	var wrong []error
	if r.Name == "" {
		wrong = append(wrong, errors.New("metadata.name is missing"))
	}

	seen := map[string]bool{}
	for i, tag := range r.Tags {
		switch {
		case tag.Name == "":
			wrong = append(wrong, fmt.Errorf("spec.tags[%d]: name is missing", i))
		case seen[tag.Name]:
			wrong = append(wrong, fmt.Errorf("spec.tags[%d]: there is an image %q already", i, tag.Name))
		case tag.PullSpec == "":
			wrong = append(wrong, fmt.Errorf("spec.tags[%d] %q: from.name is missing", i, tag.Name))
		}
		seen[tag.Name] = true
	}

	return wrong
}

// pinnedPattern is a pull spec by digest: a repository without blanks, and a SHA-256 or
// SHA-512.
var pinnedPattern = regexp.MustCompile(`^[^\s@]+@(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

// CheckPinned joins an error for each image that is not named by digest: what a tag names
// may change after the release was signed.
func (r ImageReferences) CheckPinned() error {
	var wrong []error
	for i, tag := range r.Tags {
		if !pinnedPattern.MatchString(tag.PullSpec) {
			wrong = append(wrong, fmt.Errorf("spec.tags[%d] %q: from.name must be a pull spec by digest, not %q", i, tag.Name, tag.PullSpec))
		}
	}
	return errors.Join(wrong...)
}

// PullSpec tells where an image of the release is.
func (r ImageReferences) PullSpec(name string) (pullSpec string, ok bool) {
	for _, tag := range r.Tags {
		if tag.Name == name {
			return tag.PullSpec, true
		}
	}
	return "", false
}

// Encode writes the images as image-references: equal images give equal bytes. All of them
// must be named by digest. What an ImageStream can have beyond them is not written.
func (r ImageReferences) Encode() ([]byte, error) {
	if err := errors.Join(append(r.check(), r.CheckPinned())...); err != nil {
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
	return encode(stream)
}
