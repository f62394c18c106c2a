package hub

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Annotations of a ClusterServiceVersion that people read.
const (
	annotationCategories         = "categories"
	annotationDescription        = "description"
	annotationCapabilities       = "capabilities"
	annotationCreated            = "createdAt"
	annotationRepository         = "repository"
	annotationContainerImage     = "containerImage"
	annotationSupport            = "support"
	annotationExamples           = "alm-examples"
	annotationValidSubscription  = "operators.openshift.io/valid-subscription"
	annotationFeatures           = "operators.openshift.io/infrastructure-features"
	annotationFeaturePrefix      = "features.operators.openshift.io/"
	annotationInternalObjects    = "operators.operatorframework.io/internal-objects"
	annotationType               = "operators.operatorframework.io/operator-type"
	annotationSuggestedNamespace = "operatorframework.io/suggested-namespace"
	typeNonStandalone            = "non-standalone"
	labelArchitecture            = "operatorframework.io/arch."
	labelOperatingSystem         = "operatorframework.io/os."
	labelVisibility              = "olm-visibility"
)

// Limits of what is kept of a package.
const (
	// maxShortText limits names and short descriptions, in bytes.
	maxShortText = 300
	// maxDescription limits the Markdown of a version. Descriptions of public catalogs have at most 40 kB.
	maxDescription = 128 << 10
	// maxItems limits lists such as keywords and links.
	maxItems = 60
	// maxExamples limits the bytes of the sample objects of a version.
	maxExamples = 256 << 10
)

// capabilityLevels are the capability levels in their order.
var capabilityLevels = []string{"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}

// features are the infrastructure features by the last part of their annotation.
var features = map[string]string{
	"disconnected": "Disconnected", "fips-compliant": "Designed for FIPS", "proxy-aware": "Proxy-aware", "tls-profiles": "Configurable TLS ciphers",
	"cnf": "Cloud-Native Network Function", "cni": "Container Network Interface", "csi": "Container Storage Interface",
}

// olderFeatures are the spellings of features in the older annotation, in lower case without spaces and hyphens.
var olderFeatures = map[string]string{
	"disconnected": "disconnected", "proxy": "proxy-aware", "proxyaware": "proxy-aware", "fips": "fips-compliant", "fipsmode": "fips-compliant",
	"tls": "tls-profiles", "tlsprofiles": "tls-profiles", "cnf": "cnf", "cni": "cni", "csi": "csi",
}

// parseFeatures returns the sorted infrastructure features that annotations declare. The newer annotations win.
func parseFeatures(annotations map[string]string) []string {
	declared := map[string]bool{}
	for _, text := range parseList(annotations[annotationFeatures]) {
		if key, ok := olderFeatures[strings.NewReplacer(" ", "", "-", "").Replace(strings.ToLower(text))]; ok {
			declared[key] = true
		}
	}

	for key := range features {
		if value, ok := annotations[annotationFeaturePrefix+key]; ok {
			declared[key] = value != "false"
		}
	}

	var names []string
	for key, isDeclared := range declared {
		if isDeclared {
			names = append(names, features[key])
		}
	}
	slices.Sort(names)
	return names
}

// parseList returns the strings of a JSON list. It returns nil for any other text.
func parseList(text string) []string {
	var list []string
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	return cleanTexts(list)
}

// parseCapability returns a capability level in its usual spelling, or an empty string for an unknown one.
func parseCapability(text string) string {
	for _, level := range capabilityLevels {
		if strings.EqualFold(strings.TrimSpace(text), level) {
			return level
		}
	}
	return ""
}

// parseCategories returns the categories of a text with commas.
func parseCategories(text string) []string {
	return cleanTexts(strings.Split(text, ","))
}

// parseExamples returns the sample objects of the annotation alm-examples. Malformed ones are left out.
func parseExamples(text string) []SampleObject {
	var objects []json.RawMessage
	if len(text) > maxExamples || json.Unmarshal([]byte(text), &objects) != nil {
		return nil
	}

	var samples []SampleObject
	for _, raw := range objects[:min(len(objects), maxItems)] {
		var head struct {
			APIVersion string                `json:"apiVersion"`
			Kind       string                `json:"kind"`
			Metadata   struct{ Name string } `json:"metadata"`
		}
		if json.Unmarshal(raw, &head) != nil || head.Kind == "" {
			continue
		}
		if written, err := yaml.JSONToYAML(raw); err == nil {
			samples = append(samples, SampleObject{APIVersion: head.APIVersion, Kind: head.Kind, Name: head.Metadata.Name, YAML: string(written)})
		}
	}
	return samples
}

// cleanText returns a text on one line of a limited length.
func cleanText(text string) string { return excerpt.Line(text, maxShortText) }

// cleanTexts returns the texts that are not empty, each once, in their order.
func cleanTexts(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if text = cleanText(text); text != "" && len(kept) < maxItems && !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}

// cleanAddress returns the address of a web page. It returns an empty string for any other text.
func cleanAddress(text string) string {
	text = strings.TrimSpace(text)
	address, err := url.Parse(text)
	if err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Host == "" || address.User != nil || len(text) > 2*maxShortText {
		return ""
	}
	return address.String()
}
