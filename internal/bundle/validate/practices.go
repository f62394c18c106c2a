package validate

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// recommendedChannelPrefixes are the recommended prefixes of channel names.
var recommendedChannelPrefixes = []string{"candidate", "fast", "stable"}

// checkPractices checks good practices for operators.
func checkPractices(s *decodedBundle, _ Options, found *findings) {
	if s.csv == nil {
		return
	}

	csv := s.csv
	deployments := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	if len(deployments) == 0 {
		found.addAboutCSV(Error, csv.Name, "unable to find a deployment to install in the CSV")
	}

	for _, deployment := range deployments {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			if missing := missingRequests(container); len(missing) > 0 {
				found.addAboutCSV(Warning, csv.Name, "unable to find the resource requests for the container (%s) of deployment %s: %s",
					container.Name, deployment.Name, strings.Join(missing, ", "))
			}
		}
	}

	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		if owned.Description == "" {
			found.addAboutCSV(Warning, csv.Name, "owned CRD %q has an empty description", owned.Name)
		}
	}

	s.checkChannelNames(found)
	for _, granted := range s.collectGrants() {
		if granted.coversResource("apiextensions.k8s.io", "customresourcedefinitions") && granted.allowsAnyVerb("create") {
			found.addAboutCSV(Warning, csv.Name, "%s %s grants the right to create CRDs: CRDs should be part of the bundle", granted.kind, granted.name)
		}
	}

	checkVersionInName(csv.Name, s.annotations[bundle.KeyPackage], found)
}

func missingRequests(container corev1.Container) []string {
	var missing []string
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, ok := container.Resources.Requests[resource]; !ok {
			missing = append(missing, string(resource))
		}
	}
	return missing
}

func (s *decodedBundle) checkChannelNames(found *findings) {
	var odd []string
	for _, channel := range append(strings.Split(s.annotations[bundle.KeyChannels], ","), s.annotations[bundle.KeyDefaultChannel]) {
		channel = strings.TrimSpace(channel)
		good := slices.ContainsFunc(recommendedChannelPrefixes, func(start string) bool { return strings.HasPrefix(channel, start) })
		if channel != "" && !good && !slices.Contains(odd, channel) {
			odd = append(odd, channel)
		}
	}

	if len(odd) > 0 {
		found.addAboutCSV(Warning, s.csv.Name, "channels %+q should start with candidate, fast or stable, so that people know what to expect of them", odd)
	}
}

// checkVersionInName checks that the name of a CSV ends with ".v" and a version.
func checkVersionInName(name, pkg string, found *findings) {
	before, version, ok := strings.Cut(name, ".v")
	if _, err := semver.Parse(version); !ok || err != nil {
		found.addAboutCSV(Warning, name, "csv.metadata.name %q should be <name>.v<version> with a semantic version, such as %s.v0.0.1", name, pkg)
	} else if before == "" {
		found.addAboutCSV(Warning, name, "csv.metadata.name %q should start with the operator's name", name)
	}
}

// parseAnnotatedProperties returns the properties in a CSV's annotation. It returns none if
// the annotation is invalid.
func parseAnnotatedProperties(annotations map[string]string) []fbc.Property {
	var properties []fbc.Property
	if json.Unmarshal([]byte(annotations["olm.properties"]), &properties) != nil {
		return nil
	}
	return properties
}

// maxOpenShiftVersionProperty is the type of the property with the last version of
// OpenShift that a bundle supports.
const maxOpenShiftVersionProperty = "olm.maxOpenShiftVersion"

// checkCommunity checks what OpenShift required of bundles that use APIs which OpenShift
// 4.9, with Kubernetes 1.22, no longer serves.
func checkCommunity(s *decodedBundle, _ Options, found *findings) {
	if s.csv == nil || len(s.namesOfRemoved(removals[0])) == 0 {
		return
	}

	stated := slices.Concat(s.files.Properties(), parseAnnotatedProperties(s.csv.Annotations))
	i := slices.IndexFunc(stated, func(p fbc.Property) bool { return p.Type == maxOpenShiftVersionProperty })
	if i < 0 {
		found.addAboutCSV(Error, s.csv.Name, "%s is not set: a bundle that uses APIs which Kubernetes 1.22 removed must set it to a version below 4.9", maxOpenShiftVersionProperty)
		return
	}

	text := strings.Trim(string(stated[i].Value), `"`)
	version, err := semver.ParseTolerant(text)
	switch {
	case err != nil:
		found.addAboutCSV(Error, s.csv.Name, "%s has an invalid value: %s", maxOpenShiftVersionProperty, text)
	case version.GE(semver.Version{Major: 4, Minor: 9}):
		found.addAboutCSV(Error, s.csv.Name, "%s is %s: a bundle that uses APIs which Kubernetes 1.22 removed must set it to a version below 4.9", maxOpenShiftVersionProperty, text)
	}

	s.checkVersionsLabel(found)
}

// openShiftVersionsLabel is the label with the versions of OpenShift whose catalogs contain
// a bundle: a version and all above, =version for one only, or a range such as v4.6-v4.8.
const openShiftVersionsLabel = "com.redhat.openshift.versions"

func (s *decodedBundle) checkVersionsLabel(found *findings) {
	text, ok := s.annotations[openShiftVersionsLabel]
	if !ok {
		return
	}

	last := strings.TrimPrefix(text, "=")
	if _, end, isRange := strings.Cut(text, "-"); isRange {
		last = end
	} else if !strings.HasPrefix(text, "=") {
		found.addAboutCSV(Error, s.csv.Name, "label %s is %q, which holds 4.9 as well: give a range that ends below, such as v4.6-v4.8", openShiftVersionsLabel, text)
		return
	}

	version, err := semver.ParseTolerant(strings.TrimSpace(last))
	switch {
	case err != nil:
		found.addAboutCSV(Error, s.csv.Name, "label %s has an invalid value: %q", openShiftVersionsLabel, text)
	case version.GE(semver.Version{Major: 4, Minor: 9}):
		found.addAboutCSV(Error, s.csv.Name, "label %s is %q, which holds 4.9 as well: give a range that ends below, such as v4.6-v4.8", openShiftVersionsLabel, text)
	}
}
