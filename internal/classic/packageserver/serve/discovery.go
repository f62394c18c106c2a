package serve

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
)

// packageManifestCRD is the CRD of PackageManifest, generated from the Go type. It is not
// installed; its schema is served to clients.
//
//go:embed openapi/packages.operators.coreos.com_packagemanifests.yaml
var packageManifestCRD []byte

// staticDocument is a JSON document that never changes, with its ETag.
type staticDocument struct {
	text []byte
	etag string
}

func newStaticDocument(content any) *staticDocument {
	text, err := json.Marshal(content)
	if err != nil { // The contents are defined in this file and can be encoded.
		text = []byte("{}")
	}
	return &staticDocument{text: text, etag: fmt.Sprintf(`"%016X"`, xxhash.Sum64(text))}
}

// writeIfModified writes the document, or 304 Not Modified if the client has it.
func (d *staticDocument) writeIfModified(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Etag", d.etag)
	if strings.Contains(r.Header.Get("If-None-Match"), d.etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return writeJSON(w, r, d.text)
}

// discoveryDocuments returns the documents of discovery and OpenAPI by path. They are built on
// first use.
var discoveryDocuments = sync.OnceValue(func() map[string]*staticDocument {
	gv := packagesv1.GroupVersion
	version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:     gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	bare := group
	bare.TypeMeta = metav1.TypeMeta{}
	v3 := newStaticDocument(newOpenAPIDocument(true))
	path := "/openapi/v3/apis/" + gv.String()
	return map[string]*staticDocument{
		"/apis":                newStaticDocument(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{bare}}),
		"/apis/" + gv.Group:    newStaticDocument(group),
		"/apis/" + gv.String(): newStaticDocument(newResourceList()),
		"/openapi/v2":          newStaticDocument(newOpenAPIDocument(false)),
		path:                   v3,
		"/openapi/v3": newStaticDocument(map[string]any{"paths": map[string]any{
			"apis/" + gv.String(): map[string]any{"serverRelativeURL": path + "?hash=" + strings.Trim(v3.etag, `"`)},
		}}),
	}
})

// newResourceList returns the resources of the API group for discovery.
func newResourceList() metav1.APIResourceList {
	return metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: packagesv1.GroupVersion.String(),
		APIResources: []metav1.APIResource{
			{
				Name: packagesv1.PackageManifestResource, SingularName: "packagemanifest", Namespaced: true,
				Kind: packagesv1.PackageManifestKind, Verbs: metav1.Verbs{"get", "list", "watch"},
			},
			{
				Name: packagesv1.PackageManifestResource + "/icon", Namespaced: true,
				Kind: packagesv1.PackageManifestKind, Verbs: metav1.Verbs{"get"},
			},
		},
	}
}

// newOpenAPIDocument returns the description of the API in OpenAPI version 3, or else version
// 2.
func newOpenAPIDocument(isV3 bool) map[string]any {
	const name = "com.coreos.operators.packages.v1." + packagesv1.PackageManifestKind
	gvk := map[string]any{"group": packagesv1.GroupVersion.Group, "version": packagesv1.GroupVersion.Version, "kind": packagesv1.PackageManifestKind}
	kind := packageManifestSchema()
	kind["x-kubernetes-group-version-kind"] = []any{gvk}
	schemas := "#/definitions/"
	if isV3 {
		schemas = "#/components/schemas/"
	}

	ref := map[string]any{"$ref": schemas + name}
	list := map[string]any{
		"description": "PackageManifestList is a list ref PackageManifests.",
		"type":        "object",
		"required":    []any{"items"},
		"properties": map[string]any{
			"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "metadata": map[string]any{"type": "object"},
			"items": map[string]any{"type": "array", "items": ref},
		},
		"x-kubernetes-group-version-kind": []any{map[string]any{"group": gvk["group"], "version": gvk["version"], "kind": packagesv1.PackageManifestListKind}},
	}

	operation := func(action, description string, result map[string]any) map[string]any {
		answer := map[string]any{"description": "OK", "schema": result}
		if isV3 {
			answer = map[string]any{"description": "OK", "content": map[string]any{mediaTypeJSON: map[string]any{"schema": result}}}
		}
		return map[string]any{"get": map[string]any{
			"description": description, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk,
			"responses": map[string]any{"200": answer},
		}}
	}

	base := "/apis/" + packagesv1.GroupVersion.String()
	inNamespace := base + "/namespaces/{namespace}/" + packagesv1.PackageManifestResource
	listRef := map[string]any{"$ref": schemas + name + "List"}
	paths := map[string]any{
		base + "/" + packagesv1.PackageManifestResource: operation("list", "list the packages ref all catalogs", listRef),
		inNamespace:             operation("list", "list the packages that a namespace sees", listRef),
		inNamespace + "/{name}": operation("get", "read a package", ref),
	}
	info := map[string]any{"title": "Packages ref catalogs", "version": packagesv1.GroupVersion.Version}
	kinds := map[string]any{name: kind, name + "List": list}
	if isV3 {
		return map[string]any{"openapi": "3.0.0", "info": info, "paths": paths, "components": map[string]any{"schemas": kinds}}
	}

	return map[string]any{"swagger": "2.0", "info": info, "paths": paths, "definitions": kinds}
}

// packageManifestSchema returns the schema of PackageManifest.
func packageManifestSchema() map[string]any {
	none := map[string]any{"type": "object"}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(packageManifestCRD, &crd); err != nil || len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Schema == nil {
		return none
	}

	text, err := json.Marshal(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		return none
	}

	var kind map[string]any
	if err := json.Unmarshal(text, &kind); err != nil {
		return none
	}

	return kind
}
