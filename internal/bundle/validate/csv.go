package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Annotations that hold examples of an operator's APIs.
const (
	annotationExamples    = "alm-examples"
	annotationExamplesOLM = "olm.examples"
)

// casedAnnotations are annotations whose keys are case-sensitive.
var casedAnnotations = []string{
	"olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces", "olm.providedAPIs", "olm.skipRange",
}

// checkCSV checks the rules for every CSV.
func checkCSV(csv *v1alpha1.ClusterServiceVersion, found *findings) {
	if csv.APIVersion == "" {
		found.addAboutCSV(Error, csv.Name, "'apiVersion' is missing")
	}
	if csv.Kind == "" {
		found.addAboutCSV(Error, csv.Name, "'kind' is missing")
	}

	checkCSVName(csv.Name, "metadata.name", csv.Name, found)
	if csv.Spec.Replaces != "" {
		checkCSVName(csv.Name, "spec.replaces", csv.Spec.Replaces, found)
	}

	checkExamples(csv, found)
	checkInstallModes(csv, found)
	checkMinKubeVersion(csv, found)
	checkRequiredFields(csv, found)
	checkAnnotationCase(csv.Name, csv.Annotations, found)
	if _, ok := csv.Annotations["olm.properties"]; ok {
		found.addAboutCSV(Warning, csv.Name, "found olm.properties annotation, please define these properties in metadata/properties.yaml instead")
	}
}

// checkCSVName checks that the name of a CSV is a valid object name and a valid label
// value, because names of CSVs are used in labels.
func checkCSVName(csv, field, name string, found *findings) {
	wrong := append(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)...)
	if len(wrong) > 0 {
		found.addAboutCSV(Error, csv, "%s %q is invalid: %s", field, name, strings.Join(wrong, ","))
	}
}

func checkInstallModes(csv *v1alpha1.ClusterServiceVersion, found *findings) {
	modes := csv.Spec.InstallModes
	if len(modes) == 0 {
		found.addAboutCSV(Error, csv.Name, "install modes not found")
		return
	}

	supported := map[v1alpha1.InstallModeType]bool{}
	counts := map[v1alpha1.InstallModeType]int{}
	for _, mode := range modes {
		if counts[mode.Type]++; mode.Supported {
			supported[mode.Type] = true
		}
	}

	if len(counts) < len(modes) {
		found.addAboutCSV(Error, csv.Name, "duplicate install modes present")
	}
	if len(supported) == 0 {
		found.addAboutCSV(Error, csv.Name, "none of InstallModeTypes are supported")
	}

	onlyAll := len(supported) == 1 && supported[v1alpha1.InstallModeTypeAllNamespaces]
	for _, webhook := range csv.Spec.WebhookDefinitions {
		if len(webhook.ConversionCRDs) > 0 && !onlyAll {
			found.addAboutCSV(Error, csv.Name, "only AllNamespaces InstallModeType is supported when conversionCRDs is present")
			return
		}
	}
}

func checkMinKubeVersion(csv *v1alpha1.ClusterServiceVersion, found *findings) {
	text := string(csv.Spec.MinKubeVersion)
	if text == "" {
		found.addAboutCSV(Warning, csv.Name, "csv.Spec.minKubeVersion is not informed. "+
			"Without it the operator can be installed on a cluster of any version, also on one that it does not run on: say what the lowest one is.")
		return
	}

	if _, err := semver.Parse(text); err != nil {
		found.addAboutCSV(Error, csv.Name, "csv.Spec.MinKubeVersion has an invalid value: %s", text)
	}
}

// checkRequiredFields reports required fields that are not set, with the names of the Go
// type.
func checkRequiredFields(csv *v1alpha1.ClusterServiceVersion, found *findings) {
	missing := func(name, kind string) { found.addAboutField(Error, name, kind, "required field missing") }
	spec := &csv.Spec
	install := &spec.InstallStrategy
	hasStrategySpec := len(install.StrategySpec.DeploymentSpecs)+len(install.StrategySpec.Permissions)+len(install.StrategySpec.ClusterPermissions) > 0
	switch {
	case install.StrategyName == "" && !hasStrategySpec:
		missing("Spec.InstallStrategy", "struct")
	case install.StrategyName == "":
		missing("Spec.InstallStrategy.StrategyName", "field")
	}

	if hasStrategySpec && len(install.StrategySpec.DeploymentSpecs) == 0 {
		missing("Spec.InstallStrategy.StrategySpec.DeploymentSpecs", "field")
	}
	if spec.DisplayName == "" {
		missing("Spec.DisplayName", "field")
	}
}

// checkAnnotationCase reports annotations that are known in another case.
func checkAnnotationCase(name string, annotations map[string]string, found *findings) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		for _, cased := range casedAnnotations {
			if key != cased && strings.EqualFold(key, cased) {
				found.addAboutValue(Error, name, "provided annotation %s uses wrong case and should be %s instead", key, cased)
			}
		}
	}
}

// checkExamples compares the examples in the annotations with the APIs that the CSV owns.
func checkExamples(csv *v1alpha1.ClusterServiceVersion, found *findings) {
	owned := collectOwnedAPIs(csv, found)
	if len(csv.Annotations) == 0 {
		found.addAboutCSV(Warning, csv.Name, "annotations not found")
		return
	}

	text, ok := csv.Annotations[annotationExamples]
	other, alsoOther := csv.Annotations[annotationExamplesOLM]
	switch {
	case ok && alsoOther:
		found.addAboutCSV(Warning, csv.Name, "both %s and %s are present: only %s is used", annotationExamples, annotationExamplesOLM, annotationExamples)
	case alsoOther:
		text = other
	case !ok:
		found.addAboutCSV(Warning, csv.Name, "example annotations not found")
		return
	}

	if text == "" {
		return
	}

	shown := map[schema.GroupVersionKind]bool{}
	for _, gvk := range parseExampleKinds(text, found) {
		shown[gvk] = true
		if !slices.Contains(owned, gvk) {
			found.addAboutValue(Error, gvk, "example must have a provided API")
		}
	}

	for _, gvk := range owned {
		if !shown[gvk] {
			found.addAboutValue(Warning, gvk, "provided API should have an example annotation")
		}
	}
}

// collectOwnedAPIs returns the APIs that the CSV owns, each once.
func collectOwnedAPIs(csv *v1alpha1.ClusterServiceVersion, found *findings) []schema.GroupVersionKind {
	var owned []schema.GroupVersionKind
	add := func(group, version, kind string) {
		if gvk := (schema.GroupVersionKind{Group: group, Version: version, Kind: kind}); !slices.Contains(owned, gvk) {
			owned = append(owned, gvk)
		}
	}
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, ok := strings.Cut(crd.Name, ".")
		if !ok {
			found.add(Error, "Error: couldn't parse plural.group from crd name: %s", crd.Name)
			continue
		}
		add(group, crd.Version, crd.Kind)
	}

	for _, api := range csv.Spec.APIServiceDefinitions.Owned {
		add(api.Group, api.Version, api.Kind)
	}

	return owned
}

// parseExampleKinds returns the kinds of the examples in an annotation.
func parseExampleKinds(text string, found *findings) []schema.GroupVersionKind {
	var raw []json.RawMessage
	err := json.Unmarshal([]byte(text), &raw)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at := int(min(syntax.Offset, int64(len(text))))
		found.addAboutValue(Error, fmt.Sprintf("invalid character at %d\n %s<--(see the invalid character)", syntax.Offset, text[:at]), "invalid example")
		return nil
	}

	var gvks []schema.GroupVersionKind
	for i := 0; err == nil && i < len(raw); i++ {
		var example unstructured.Unstructured
		if err = example.UnmarshalJSON(bytes.TrimSpace(raw[i])); err == nil {
			gvks = append(gvks, example.GroupVersionKind())
		}
	}

	if err != nil {
		found.addAboutValue(Error, err, "error decoding example CustomResource")
	}

	return gvks
}
