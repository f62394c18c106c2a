package content

import (
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// csvSpecFields maps the fields of olm.csv.metadata to the fields of a CSV's spec.
var csvSpecFields = map[string]string{
	"apiServiceDefinitions": "apiservicedefinitions",
	"crdDescriptions":       "customresourcedefinitions",
	"description":           "description",
	"displayName":           "displayName",
	"installModes":          "installModes",
	"keywords":              "keywords",
	"links":                 "links",
	"maintainers":           "maintainers",
	"maturity":              "maturity",
	"minKubeVersion":        "minKubeVersion",
	"nativeAPIs":            "nativeAPIs",
	"provider":              "provider",
}

// synthesizeCSV returns the CSV that OLM's clients expect for a bundle that has only
// olm.csv.metadata. It holds what clients show and resolve with; its install strategy has no
// deployments. The icon is that of the package, and so is the description if the bundle has
// none.
func synthesizeCSV(b *fbc.Bundle, metadata, pkg []byte) string {
	spec := map[string][]byte{"install": []byte(`{"spec":{"deployments":null},"strategy":"deployment"}`)}
	head := map[string][]byte{"name": jsontext.AppendQuoted(nil, b.Name)}
	for key, value := range jsontext.Members(metadata) {
		name := string(key[1 : len(key)-1])
		switch field, ok := csvSpecFields[name]; {
		case ok:
			spec[field] = value
		case name == "annotations" || name == "labels":
			head[name] = value
		}
	}

	for key, value := range jsontext.Members(pkg) {
		switch string(key) {
		case `"icon"`:
			if value[0] == '{' {
				spec["icon"] = append(append([]byte{'['}, value...), ']')
			}
		case `"description"`:
			if own := spec["description"]; value[0] == '"' && (own == nil || string(own) == `""`) {
				spec["description"] = value
			}
		}
	}

	if len(b.RelatedImages) > 0 {
		spec["relatedImages"] = appendRelatedImages(nil, b.RelatedImages)
	}

	spec["version"] = jsontext.AppendQuoted(nil, bundleVersion(b))
	out := append(make([]byte, 0, len(metadata)+len(spec["icon"])+1024), `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":`...)
	out = appendJSONObject(out, head)
	out = append(out, `,"spec":`...)

	return string(append(appendJSONObject(out, spec), '}'))
}

func appendRelatedImages(out []byte, images []fbc.RelatedImage) []byte {
	for i, image := range images {
		out = append(out, "[,"[min(i, 1)])
		out = append(out, encodeStringObject("image", image.Image, "name", image.Name)...)
	}
	return append(out, ']')
}
