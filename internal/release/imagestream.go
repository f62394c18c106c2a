package release

import (
	"errors"
	"fmt"
	"strings"
)

// clusterStream is an ImageStream of a cluster, with the images that its tags resolve to.
type clusterStream struct {
	imageStream
	Status struct {
		// Repository is where the cluster itself has images, PublicRepository where others
		// reach them.
		Repository       string `json:"dockerImageRepository"`
		PublicRepository string `json:"publicDockerImageRepository"`
		Tags             []struct {
			Tag string `json:"tag"`
			// Items are what the tag has stood for, the newest first.
			Items []struct {
				Reference string `json:"dockerImageReference"`
			} `json:"items"`
		} `json:"tags"`
	} `json:"status"`
}

// ParseImageStream parses an ImageStream as the input of a release. The image of a tag is the
// current one in the status, or else the one in the spec. Its error joins all problems.
func ParseImageStream(data []byte) (ImageReferences, error) {
	var stream clusterStream
	if err := decodeJSON(data, &stream); err != nil {
		return ImageReferences{}, err
	}
	if stream.Kind != imageStreamKind || stream.APIVersion != imageStreamVersion {
		return ImageReferences{}, fmt.Errorf("must be an %s of %s, not a %q of %q", imageStreamKind, imageStreamVersion, stream.Kind, stream.APIVersion)
	}

	images := ImageReferences{Name: stream.Metadata.Name, Created: stream.Metadata.CreationTimestamp, Annotations: stream.Metadata.Annotations}
	current := stream.currentReferences()
	for i, tag := range stream.Spec.Tags {
		pullSpec := current[tag.Name]
		delete(current, tag.Name)
		if pullSpec == "" && tag.From != nil && tag.From.Kind == dockerImageKind {
			pullSpec = tag.From.Name
		}
		if pullSpec == "" {
			return images, fmt.Errorf("spec.tags[%d] %q: it refers to no image yet", i, tag.Name)
		}

		images.Tags = append(images.Tags, ImageTag{Name: tag.Name, PullSpec: pullSpec, Annotations: tag.Annotations})
	}

	for _, tag := range stream.Status.Tags { // tags that were pushed
		if pullSpec := current[tag.Tag]; pullSpec != "" {
			images.Tags = append(images.Tags, ImageTag{Name: tag.Tag, PullSpec: pullSpec})
		}
	}

	return images, errors.Join(images.checkTagNames()...)
}

// currentReferences returns the references that the tags resolve to.
func (s *clusterStream) currentReferences() map[string]string {
	found := map[string]string{}
	for _, tag := range s.Status.Tags {
		if len(tag.Items) == 0 {
			continue
		}
		reference := tag.Items[0].Reference
		if rest, ok := strings.CutPrefix(reference, s.Status.Repository+"@"); ok && s.Status.Repository != "" && s.Status.PublicRepository != "" {
			reference = s.Status.PublicRepository + "@" + rest
		}
		found[tag.Tag] = reference
	}

	return found
}
