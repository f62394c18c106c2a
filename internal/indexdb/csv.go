package indexdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

const kindCSV = "ClusterServiceVersion"

// storedCSV has the fields of a stored CSV that this package reads.
type storedCSV struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Version string `json:"version"`
		Icon    []struct {
			Data      string `json:"base64data"`
			MediaType string `json:"mediatype"`
		} `json:"icon"`
		RelatedImages []struct {
			Name  string `json:"name"`
			Image string `json:"image"`
		} `json:"relatedImages"`
		CRDs struct {
			Required []requiredAPI `json:"required"`
		} `json:"customresourcedefinitions"`
		APIServices struct {
			Required []requiredAPI `json:"required"`
		} `json:"apiservicedefinitions"`
		Install struct {
			Spec struct {
				Deployments []struct {
					Spec struct {
						Template struct {
							Spec struct {
								Containers     []container `json:"containers"`
								InitContainers []container `json:"initContainers"`
							} `json:"spec"`
						} `json:"template"`
					} `json:"spec"`
				} `json:"deployments"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

type container struct {
	Image string `json:"image"`
}

type requiredAPI struct {
	// Name is <plural>.<group> of a CRD, or the plural of an API service's kind.
	Name    string `json:"name"`
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

func parseCSV(text []byte) (*storedCSV, error) {
	csv := &storedCSV{}
	if err := json.Unmarshal(text, csv); err != nil {
		return nil, fmt.Errorf("its CSV cannot be read: %w", err)
	}
	return csv, nil
}

// collectImages returns all images of the CSV, sorted, each once.
func (c *storedCSV) collectImages() []string {
	var images []string
	for _, related := range c.Spec.RelatedImages {
		images = append(images, related.Image)
	}

	for _, deployment := range c.Spec.Install.Spec.Deployments {
		pod := deployment.Spec.Template.Spec
		for _, container := range slices.Concat(pod.Containers, pod.InitContainers) {
			images = append(images, container.Image)
		}
	}

	slices.Sort(images)
	images = slices.Compact(images)
	return slices.DeleteFunc(images, func(image string) bool { return image == "" })
}

// requiredAPIs returns the APIs that the CSV requires.
func (c *storedCSV) requiredAPIs() []API {
	var apis []API
	for _, crd := range c.Spec.CRDs.Required {
		plural, group, _ := strings.Cut(crd.Name, ".")
		apis = append(apis, API{Group: group, Version: crd.Version, Kind: crd.Kind, Plural: plural})
	}

	for _, service := range c.Spec.APIServices.Required {
		apis = append(apis, API{Group: service.Group, Version: service.Version, Kind: service.Kind, Plural: service.Name})
	}
	return apis
}

// splitObjects splits the concatenated objects of a bundle, and returns each one as
// written.
func splitObjects(text []byte) ([]json.RawMessage, error) {
	var objects []json.RawMessage
	for {
		text = bytes.TrimLeft(text, " \t\r\n")
		if len(text) == 0 {
			return objects, nil
		}

		end := jsontext.End(text)
		if end <= 0 || !json.Valid(text[:end]) {
			return nil, fmt.Errorf("its object %d cannot be read: it is not JSON", len(objects)+1)
		}

		objects = append(objects, text[:end:end])
		text = text[end:]
	}
}
