package content

import (
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// metadataFields are the fields of olm.csv.metadata that are fields of a CSV's spec,
// which has other names for two of them.
var metadataFields = map[string]string{
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

// csvOf writes the ClusterServiceVersion that OLM's clients expect for a bundle of which
// the catalog has only olm.csv.metadata: what they show and resolve with. It says that it
// installs deployments and names none. The icon is that of the package, and so is the
// description when the bundle has none of its own.
func csvOf(b *fbc.Bundle, metadata, pkg []byte) string {
	spec := map[string][]byte{"install": []byte(`{"spec":{"deployments":null},"strategy":"deployment"}`)}
	head := map[string][]byte{"name": jsontext.AppendQuoted(nil, b.Name)}
	for key, value := range jsontext.Members(metadata) {
		name := string(key[1 : len(key)-1])
		switch field, ok := metadataFields[name]; {
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
		spec["relatedImages"] = appendImages(nil, b.RelatedImages)
	}

	spec["version"] = jsontext.AppendQuoted(nil, version(b))
	out := append(make([]byte, 0, len(metadata)+len(spec["icon"])+1024), `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":`...)
	out = appendObject(out, head)
	out = append(out, `,"spec":`...)

	return string(append(appendObject(out, spec), '}'))
}

func appendImages(out []byte, images []fbc.RelatedImage) []byte {
	for i, image := range images {
		out = append(out, "[,"[min(i, 1)])
		out = append(out, object("image", image.Image, "name", image.Name)...)
	}
	return append(out, ']')
}
