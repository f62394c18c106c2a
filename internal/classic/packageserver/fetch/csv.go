package fetch

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
)

// maxIconBytes limits an icon. Icons of public catalogs have a few hundred kB at most.
const maxIconBytes = 2 << 20

// bundleCSV has the fields of a CSV that are served, and the images of its Deployments.
type bundleCSV struct {
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		DisplayName    string                                      `json:"displayName"`
		Description    string                                      `json:"description"`
		Version        operatorsv1alpha1.LooseVersion              `json:"version"`
		MinKubeVersion operatorsv1alpha1.LooseVersion              `json:"minKubeVersion"`
		Maturity       string                                      `json:"maturity"`
		Keywords       []string                                    `json:"keywords"`
		Provider       operatorsv1alpha1.AppLink                   `json:"provider"`
		Links          []operatorsv1alpha1.AppLink                 `json:"links"`
		Maintainers    []operatorsv1alpha1.Maintainer              `json:"maintainers"`
		Icon           []operatorsv1alpha1.Icon                    `json:"icon"`
		InstallModes   []operatorsv1alpha1.InstallMode             `json:"installModes"`
		CRDs           operatorsv1alpha1.CustomResourceDefinitions `json:"customresourcedefinitions"`
		APIServices    operatorsv1alpha1.APIServiceDefinitions     `json:"apiservicedefinitions"`
		NativeAPIs     []metav1.GroupVersionKind                   `json:"nativeAPIs"`
		RelatedImages  []operatorsv1alpha1.RelatedImage            `json:"relatedImages"`
		Install        struct {
			Spec struct {
				Deployments []deployment `json:"deployments"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

type deployment struct {
	Spec struct {
		Template struct {
			Spec struct {
				Containers     []container `json:"containers"`
				InitContainers []container `json:"initContainers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type container struct {
	Image string `json:"image"`
}

// parseCSV parses the CSV of a bundle.
func parseCSV(text string) (*bundleCSV, error) {
	if text == "" {
		return nil, errors.New("the bundle has no ClusterServiceVersion")
	}

	var c bundleCSV
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("parsing the ClusterServiceVersion of the bundle: %w", err)
	}
	return &c, nil
}

// newDescription returns the description of the CSV that is served.
func (c *bundleCSV) newDescription() packagesv1.CSVDescription {
	s := &c.Spec
	return packagesv1.CSVDescription{
		DisplayName: s.DisplayName, Version: cmp.Or(s.Version, "0.0.0"), Provider: s.Provider, Annotations: c.Metadata.Annotations,
		Keywords: s.Keywords, Links: s.Links, Maintainers: s.Maintainers, Maturity: s.Maturity, LongDescription: s.Description,
		InstallModes: s.InstallModes, CustomResourceDefinitions: s.CRDs, APIServiceDefinitions: s.APIServices,
		NativeAPIs: s.NativeAPIs, MinKubeVersion: s.MinKubeVersion, RelatedImages: c.relatedImages(),
	}
}

// relatedImages returns the images of its Deployments and its related images, without
// duplicates.
func (c *bundleCSV) relatedImages() []string {
	var all []string
	add := func(image string) {
		if image != "" && !slices.Contains(all, image) {
			all = append(all, image)
		}
	}
	for _, d := range c.Spec.Install.Spec.Deployments {
		for _, container := range d.Spec.Template.Spec.Containers {
			add(container.Image)
		}
		for _, container := range d.Spec.Template.Spec.InitContainers {
			add(container.Image)
		}
	}

	for _, related := range c.Spec.RelatedImages {
		add(related.Image)
	}

	return all
}

// packageLabels returns the labels that the CSV adds to its package.
func (c *bundleCSV) packageLabels() map[string]string {
	all := map[string]string{}
	maps.Copy(all, c.Metadata.Labels)
	all[packagesv1.LabelProvider] = c.Spec.Provider.Name
	all[packagesv1.LabelProviderURL] = c.Spec.Provider.URL
	for prefix, defaultLabel := range map[string]string{
		packagesv1.LabelOS: packagesv1.LabelDefaultOS, packagesv1.LabelArch: packagesv1.LabelDefaultArch,
	} {
		found := false
		for label := range c.Metadata.Labels {
			found = found || strings.HasPrefix(label, prefix)
		}
		if !found {
			all[defaultLabel] = packagesv1.LabelSupported
		}
	}

	return all
}

// decodeIcon returns the first icon of the CSV. The icon has no data if it is missing, too
// large or invalid.
func (c *bundleCSV) decodeIcon() index.Icon {
	if len(c.Spec.Icon) == 0 {
		return index.Icon{}
	}

	first := c.Spec.Icon[0]
	if len(first.Data) > base64.StdEncoding.EncodedLen(maxIconBytes) {
		return index.Icon{}
	}

	// Some CSVs leave out the padding, and some contain line breaks. The decoder refuses only
	// the former.
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(first.Data), "="))
	if err != nil {
		return index.Icon{}
	}

	return index.Icon{MediaType: first.MediaType, Data: data}
}

// sortNewestFirst returns entries sorted by version, highest first; entries without a version
// come last. The result is never nil, because clients expect an empty list.
func sortNewestFirst(entries []packagesv1.ChannelEntry) []packagesv1.ChannelEntry {
	type ranked struct {
		packagesv1.ChannelEntry
		version *semver.Version
	}
	all := make([]ranked, 0, len(entries))
	for _, e := range entries {
		r := ranked{ChannelEntry: e}
		if v, err := semver.ParseTolerant(e.Version); err == nil {
			r.version = &v
		}
		all = append(all, r)
	}

	slices.SortFunc(all, func(a, b ranked) int {
		switch {
		case a.version != nil && b.version != nil:
			return cmp.Or(b.version.Compare(*a.version), cmp.Compare(a.Name, b.Name))
		case a.version != nil:
			return -1
		case b.version != nil:
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})

	sorted := make([]packagesv1.ChannelEntry, 0, len(all))
	for _, r := range all {
		sorted = append(sorted, r.ChannelEntry)
	}

	return sorted
}
