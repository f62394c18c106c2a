package validate

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

var (
	capabilityLevels = []string{"Auto Pilot", "Basic Install", "Deep Insights", "Full Lifecycle", "Seamless Upgrades"}

	standardCategories = []string{
		"AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Database", "Developer Tools",
		"Integration & Delivery", "Logging & Tracing", "Modernization & Migration", "Monitoring", "Networking", "Observability",
		"OpenShift Optional", "Security", "Storage", "Streaming & Messaging",
	}

	iconTypes = []string{"image/gif", "image/jpeg", "image/png", "image/svg+xml"}
)

// checkOperatorHub checks the requirements of operatorhub.io.
func checkOperatorHub(s *decodedBundle, options Options, found *findings) {
	if s.csv == nil {
		return
	}
	found.addAboutCSV(Warning, s.csv.Name, `the validator "operatorhub" is deprecated: use operatorhub/v2, standardcapabilities and standardcategories`)
	checkOperatorHubV2(s, options, found)
	checkCapabilities(s, options, found)
	checkCategories(s, options, found)
}

func checkOperatorHubV2(s *decodedBundle, options Options, found *findings) {
	if s.csv == nil {
		return
	}

	csv := s.csv
	if csv.Spec.Provider.Name == "" {
		found.addAboutCSV(Error, csv.Name, "csv.Spec.Provider.Name not specified")
	}

	checkMaintainers(csv, found)
	checkLinks(csv, found)

	if version, err := semver.ParseTolerant(string(csv.Spec.Version)); err != nil || version.Equals(semver.Version{}) {
		found.addAboutCSV(Error, csv.Name, "csv.Spec.Version must be set")
	}

	checkIcons(csv, found)
	checkMinKubeVersion(csv, found)
	checkRemovedAPIs(s, options, found)
}

func checkMaintainers(csv *v1alpha1.ClusterServiceVersion, found *findings) {
	for _, maintainer := range csv.Spec.Maintainers {
		if maintainer.Name == "" || maintainer.Email == "" {
			found.addAboutCSV(Error, csv.Name, "csv.Spec.Maintainers elements should contain both name and email")
		}
		if maintainer.Email == "" {
			continue
		}
		if _, err := mail.ParseAddress(maintainer.Email); err != nil {
			found.addAboutCSV(Error, csv.Name, "csv.Spec.Maintainers email %s is invalid: %v", maintainer.Email, err)
		}
	}
}

func checkLinks(csv *v1alpha1.ClusterServiceVersion, found *findings) {
	for _, link := range csv.Spec.Links {
		if link.Name == "" || link.URL == "" {
			found.addAboutCSV(Error, csv.Name, "csv.Spec.Links elements should contain both name and url")
		}
		if link.URL == "" {
			continue
		}
		if _, err := url.ParseRequestURI(link.URL); err != nil {
			found.addAboutCSV(Error, csv.Name, "csv.Spec.Links url %s is invalid: %v", link.URL, err)
		}
	}
}

func checkIcons(csv *v1alpha1.ClusterServiceVersion, found *findings) {
	icons := csv.Spec.Icon
	if len(icons) == 0 {
		found.addAboutCSV(Warning, csv.Name, "csv.Spec.Icon not specified")
		return
	}
	if len(icons) != 1 {
		found.addAboutCSV(Error, csv.Name, "csv.Spec.Icon should only have one element")
	}

	icon := icons[0]
	if icon.MediaType == "" || icon.Data == "" {
		found.addAboutCSV(Error, csv.Name, "csv.Spec.Icon elements should contain both data and mediatype")
	}
	if icon.MediaType != "" && !slices.Contains(iconTypes, icon.MediaType) {
		found.addAboutCSV(Error, csv.Name, "csv.Spec.Icon %s does not have a valid mediatype", icon.MediaType)
	}
}

func checkCapabilities(s *decodedBundle, _ Options, found *findings) {
	if s.csv == nil {
		return
	}
	if level, ok := s.csv.Annotations["capabilities"]; ok && !slices.Contains(capabilityLevels, level) {
		found.addAboutCSV(Error, s.csv.Name, "csv.Metadata.Annotations.Capabilities %q is not a valid capabilities level", level)
	}
}

func checkCategories(s *decodedBundle, options Options, found *findings) {
	if s.csv == nil {
		return
	}

	text, ok := s.csv.Annotations["categories"]
	if !ok {
		return
	}

	accepted, kind := standardCategories, "standard"
	if options.Categories != nil {
		custom, err := options.Categories.parseCategories()
		if err != nil {
			found.addAboutCSV(Error, s.csv.Name, "could not extract custom categories from categories %s: %v", options.Categories.Name, err)
			return
		}
		accepted, kind = custom, "custom"
	}

	for category := range strings.SplitSeq(text, ",") {
		if category = strings.TrimSpace(category); !slices.Contains(accepted, category) {
			found.addAboutCSV(Error, s.csv.Name, `csv.Metadata.Annotations["categories"] value %q is not in the set of %s categories`, category, kind)
		}
	}
}

func (c *Categories) parseCategories() ([]string, error) {
	if c.Err != nil {
		return nil, c.Err
	}

	var content struct {
		Categories []string `json:"categories"`
	}
	if err := json.Unmarshal(c.Data, &content); err != nil {
		return nil, err
	}
	if len(content.Categories) == 0 {
		return nil, fmt.Errorf("it names none under %q", "categories")
	}

	return content.Categories, nil
}
