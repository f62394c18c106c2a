package validate

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	objectmeta "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

const (
	kindCSV = "ClusterServiceVersion"
	kindCRD = "CustomResourceDefinition"
)

// supportedKinds are the kinds that a registry+v1 bundle may contain.
var supportedKinds = []string{
	kindCSV, kindCRD, "ClusterRole", "ClusterRoleBinding", "ConfigMap", "ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin",
	"ConsoleQuickStart", "ConsoleYAMLSample", "NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "PriorityClass", "PrometheusRule",
	"Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "ServiceMonitor", "VerticalPodAutoscaler",
}

// manifestObject is a manifest of a bundle that is neither a CSV nor a CRD.
type manifestObject struct {
	apiVersion, kind, name string
	content                map[string]any
}

// CheckContent validates the manifests of a bundle, and checks the optional rules of
// options. Helm charts are not checked.
func CheckContent(files *bundle.Files, options Options) Findings {
	found := &findings{validator: Content}
	mediaType, err := bundle.DetectMediaType(files.Manifests, bundle.FolderManifests)
	if err != nil {
		found.add(Error, "%v", err)
		return found.list
	}
	if mediaType == bundle.MediaTypeHelm {
		return nil
	}

	s := &decodedBundle{files: files}
	s.annotations, _ = files.Annotations()
	for _, file := range files.Manifests {
		if content := readFirstDocument(file, found); content != nil {
			s.checkManifest(file, content, mediaType, found)
		}
	}

	s.checkOwnedVersions(found)
	s.checkOptional(options, found)
	return found.list
}

// readFirstDocument returns the first document of a file, or nil if it is not an object.
func readFirstDocument(file bundle.File, found *findings) map[string]any {
	switch {
	case file.Folder || len(file.Documents) == 0 && file.Data == nil && file.Err != nil:
		found.add(Error, "Unable to read file %s in supported types", file.Name)
		return nil
	case len(file.Documents) == 0 && file.Err != nil:
		found.add(Error, "%s: %v", file.Name, file.Err)
		return nil
	case len(file.Documents) == 0:
		found.add(Error, "%s: holds no object", file.Name)
		return nil
	case file.Err != nil:
		found.add(Warning, "%s: only its first document counts for catalogs, and a further one is broken: %v", file.Name, file.Err)
	case len(file.Documents) > 1:
		found.add(Warning, "%s: holds %d documents, of which only the first counts for catalogs", file.Name, len(file.Documents))
	}

	content := file.Documents[0]
	if kind, _ := content["kind"].(string); kind == "" {
		raw, err := json.Marshal(content)
		if err != nil {
			raw = []byte(file.Name)
		}
		found.add(Error, "%v", runtime.NewMissingKindErr(string(raw)))
		return nil
	}

	return content
}

// checkManifest validates one manifest and adds it to the bundle.
func (s *decodedBundle) checkManifest(file bundle.File, content map[string]any, mediaType string, found *findings) {
	o := manifestObject{content: content}
	o.kind, _ = content["kind"].(string)
	o.apiVersion, _ = content["apiVersion"].(string)
	switch {
	case mediaType == bundle.MediaType && !slices.Contains(supportedKinds, o.kind):
		found.add(Error, "%s is not supported type for registryV1 bundle: %s", o.kind, file.Name)
	case o.kind == kindCSV:
		s.addCSV(file, content, found)
		return
	case o.kind == kindCRD:
		s.addCRD(file, content, o.apiVersion, found)
		return
	default:
		o.checkObjectMetadata(found)
	}

	metadata, _ := content["metadata"].(map[string]any)
	o.name, _ = metadata["name"].(string)
	s.objects = append(s.objects, o)
}

// addCSV decodes and validates the CSV.
func (s *decodedBundle) addCSV(file bundle.File, content map[string]any, found *findings) {
	csv, err := bundle.DecodeCSV(content)
	if err == nil && csv.Spec.Version != "" {
		_, err = semver.ParseTolerant(string(csv.Spec.Version))
	}
	if err != nil {
		found.add(Error, "%v", err)
		return
	}

	if s.csv != nil {
		// Existing tools do not report it, but no cluster accepts such a bundle.
		found.add(Warning, "%s: a second ClusterServiceVersion: a bundle that has several cannot be installed", file.Name)
		return
	}

	s.csv = csv
	s.csvContent = content
	checkCSV(csv, found)
}

// addCRD decodes and validates a CRD.
func (s *decodedBundle) addCRD(file bundle.File, content map[string]any, apiVersion string, found *findings) {
	crd, unknown, err := decodeCRD(content)
	switch {
	case unknown:
		found.add(Error, "Unsupported api version of CRD: %s", apiVersion)
		return
	case err != nil:
		found.add(Error, "%v", err)
		return
	}

	s.crds = append(s.crds, crd)
	if crd.v1beta1 {
		found.add(Warning, "%s: apiextensions.k8s.io/v1beta1 is served by no Kubernetes from 1.22 on: use apiextensions.k8s.io/v1", file.Name)
	}

	for _, fault := range validateCRD(crd.internal) {
		found.addAboutField(Error, fault.Field, fault.BadValue, fault.Error())
	}
}

// checkObjectMetadata validates the metadata of an object by the rules of the API server.
func (o manifestObject) checkObjectMetadata(found *findings) {
	raw, err := json.Marshal(o.content["metadata"])
	var metadata metav1.ObjectMeta
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, &metadata)
	}
	if err != nil {
		found.add(Error, "%s: metadata: %v", o.kind, err)
		return
	}

	anyName := func(string, bool) []string { return nil }
	faults := sortErrors(objectmeta.ValidateObjectMeta(&metadata, false, anyName, field.NewPath("metadata")))
	if len(faults) > 0 {
		found.add(Error, "error validating object metadata: %s. %s %s", faults.ToAggregate(), o.kind, raw)
	}
}

// ownedCRD is a version of a CRD that a CSV owns. It has the text format of existing tools,
// in which the group is always empty.
type ownedCRD struct{ group, kind, name, version string }

func (c ownedCRD) String() string {
	return fmt.Sprintf("{%s %s %s %s}", c.group, c.kind, c.name, c.version)
}

// checkOwnedVersions compares the versions of the bundle's CRDs with those that the CSV
// owns. It also checks that the CSV has not both a release and olm.substitutesFor.
func (s *decodedBundle) checkOwnedVersions(found *findings) {
	if s.csv == nil {
		return // a bundle of plain manifests, or one whose CSV cannot be decoded
	}

	bundled := map[ownedCRD]bool{}
	for _, crd := range s.crds {
		for _, version := range crd.versions {
			bundled[ownedCRD{"", crd.kind, crd.name, version}] = true
		}
	}

	for _, owned := range s.csv.Spec.CustomResourceDefinitions.Owned {
		key := ownedCRD{"", owned.Kind, owned.Name, owned.Version}
		if !bundled[key] {
			found.addAboutValue(Error, key, "owned CRD %s/%s not found in bundle %q", owned.Name, owned.Version, s.csv.Name)
		}
		bundled[key] = false
	}

	for _, crd := range s.crds {
		for _, version := range crd.versions {
			key := ownedCRD{"", crd.kind, crd.name, version}
			if bundled[key] {
				found.addAboutValue(Warning, key, "CRD %s/%s is present in bundle %q but not defined in CSV", crd.name, version, s.csv.Name)
			}
		}
	}

	if replaced, ok := s.csv.Annotations["olm.substitutesFor"]; ok && s.csv.Spec.Release != "" {
		found.addAboutValue(Error, s.csv.Name, "bundle %q cannot have both a release version (%q) and olm.substitutesFor annotation (%q)",
			s.csv.Name, s.csv.Spec.Release, replaced)
	}
}
