package hub

import (
	"slices"

	"github.com/blang/semver/v4"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// SummarizeManifest returns the summary of a package of OLM Classic. It returns nil if the package shall not be offered. The
// icon is empty, because package-server serves it on its own.
func SummarizeManifest(m *packagesv1.PackageManifest) *PackageSummary {
	channel := defaultChannelOf(m)
	if channel == nil {
		return nil
	}
	r := releaseOfManifest(m, channel)
	if r.isHidden() {
		return nil
	}

	s := &PackageSummary{
		Catalog: m.Status.CatalogSourceNamespace + ":" + m.Status.CatalogSource, Name: m.Name, DefaultChannel: channel.Name,
		Provider: m.Status.Provider.Name, Deprecated: deprecationOf(m.Status.Deprecation), Version: string(channel.CurrentCSVDesc.Version),
	}
	r.describe(s)
	for i := range m.Status.Channels {
		if least := string(m.Status.Channels[i].CurrentCSVDesc.MinKubeVersion); !slices.Contains(s.minKubeVersions, least) {
			s.minKubeVersions = append(s.minKubeVersions, least)
		}
	}
	return s
}

// DescribeManifest returns the details of a package of OLM Classic. It returns nil if the package shall not be offered.
// PackageManifests do not contain the updates between versions.
func DescribeManifest(m *packagesv1.PackageManifest) *PackageDetails {
	summary := SummarizeManifest(m)
	if summary == nil {
		return nil
	}

	d := &PackageDetails{PackageSummary: *summary, Channels: []ChannelSummary{}, Versions: []VersionSummary{}, Releases: []ReleaseDetails{}}
	at := map[string]int{}
	for i := range m.Status.Channels {
		channel := &m.Status.Channels[i]
		d.Channels = append(d.Channels, ChannelSummary{
			Name: channel.Name, Head: channel.CurrentCSV, Versions: len(channel.Entries), Deprecated: deprecationOf(channel.Deprecation),
		})
		for _, entry := range channel.Entries {
			index, known := at[entry.Name]
			if !known {
				index = len(d.Versions)
				at[entry.Name] = index
				d.Versions = append(d.Versions, VersionSummary{Name: entry.Name, Version: entry.Version, Deprecated: deprecationOf(entry.Deprecation)})
			}
			d.Versions[index].Channels = append(d.Versions[index].Channels, channel.Name)
		}
		if len(d.Releases) < maxItems && !slices.ContainsFunc(d.Releases, func(r ReleaseDetails) bool { return r.Bundle == channel.CurrentCSV }) {
			d.Releases = append(d.Releases, releaseOfManifest(m, channel).newDetails(channel.CurrentCSV))
		}
	}
	slices.SortStableFunc(d.Versions, compareVersions)
	return d
}

// compareVersions orders versions, the highest first, and texts that are no versions last.
func compareVersions(a, b VersionSummary) int {
	x, errX := semver.Parse(a.Version)
	y, errY := semver.Parse(b.Version)
	switch {
	case errX == nil && errY == nil:
		return y.Compare(x)
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return 0
}

// defaultChannelOf returns the default channel, or the first one if the package has none. It returns nil without channels.
func defaultChannelOf(m *packagesv1.PackageManifest) *packagesv1.PackageChannel {
	for i := range m.Status.Channels {
		if m.Status.Channels[i].Name == m.Status.DefaultChannel {
			return &m.Status.Channels[i]
		}
	}
	if len(m.Status.Channels) == 0 {
		return nil
	}
	return &m.Status.Channels[0]
}

func releaseOfManifest(m *packagesv1.PackageManifest, channel *packagesv1.PackageChannel) *release {
	csv := &channel.CurrentCSVDesc
	return &release{images: cleanTexts(csv.RelatedImages), CSVMetadata: bundle.CSVMetadata{
		Annotations: csv.Annotations, Labels: m.Labels, APIServiceDefinitions: csv.APIServiceDefinitions, CustomResourceDefinitions: csv.CustomResourceDefinitions,
		Description: csv.LongDescription, DisplayName: csv.DisplayName, InstallModes: csv.InstallModes, Keywords: csv.Keywords, Links: csv.Links,
		Maintainers: csv.Maintainers, Maturity: csv.Maturity, MinKubeVersion: csv.MinKubeVersion, Provider: csv.Provider,
	}}
}

func deprecationOf(d *packagesv1.Deprecation) string {
	if d == nil {
		return ""
	}
	return cleanText(d.Message)
}
