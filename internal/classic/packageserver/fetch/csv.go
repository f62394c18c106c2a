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

// maxIconBytes bounds a picture. Those of the field have a few hundred kB at most.
const maxIconBytes = 2 << 20

// csv is what is read of a ClusterServiceVersion: what is served of it, and the images of its
// Deployments, which are no more read than that.
type csv struct {
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

// parse reads a ClusterServiceVersion.
func parse(text string) (*csv, error) {
	if text == "" {
		return nil, errors.New("the bundle has no ClusterServiceVersion")
	}

	var c csv
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("the ClusterServiceVersion of the bundle: %w", err)
	}
	return &c, nil
}

// description is what is served of it.
func (c *csv) description() packagesv1.CSVDescription {
	s := &c.Spec
	return packagesv1.CSVDescription{
		DisplayName: s.DisplayName, Version: cmp.Or(s.Version, "0.0.0"), Provider: s.Provider, Annotations: c.Metadata.Annotations,
		Keywords: s.Keywords, Links: s.Links, Maintainers: s.Maintainers, Maturity: s.Maturity, LongDescription: s.Description,
		InstallModes: s.InstallModes, CustomResourceDefinitions: s.CRDs, APIServiceDefinitions: s.APIServices,
		NativeAPIs: s.NativeAPIs, MinKubeVersion: s.MinKubeVersion, RelatedImages: c.images(),
	}
}

// images are those of its Deployments, and those that it names, each once.
func (c *csv) images() []string {
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

// labels are those that it gives its package.
func (c *csv) labels() map[string]string {
	all := map[string]string{}
	maps.Copy(all, c.Metadata.Labels)
	all[packagesv1.LabelProvider] = c.Spec.Provider.Name
	all[packagesv1.LabelProviderURL] = c.Spec.Provider.URL
	for prefix, usual := range map[string]string{
		packagesv1.LabelOS: packagesv1.LabelDefaultOS, packagesv1.LabelArch: packagesv1.LabelDefaultArch,
	} {
		named := false
		for label := range c.Metadata.Labels {
			named = named || strings.HasPrefix(label, prefix)
		}
		if !named {
			all[usual] = packagesv1.LabelSupported
		}
	}

	return all
}

// icon is its first picture, without data when it has none that can be read.
func (c *csv) icon() index.Icon {
	if len(c.Spec.Icon) == 0 {
		return index.Icon{}
	}

	first := c.Spec.Icon[0]
	if len(first.Data) > base64.StdEncoding.EncodedLen(maxIconBytes) {
		return index.Icon{}
	}

	// Some authors leave the padding out, and some break the lines; the decoder minds the first only.
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(first.Data), "="))
	if err != nil {
		return index.Icon{}
	}

	return index.Icon{MediaType: first.MediaType, Data: data}
}

// newestFirst sorts entries: the highest version first, what has none last. It is never nil, for
// clients know an empty list.
func newestFirst(entries []packagesv1.ChannelEntry) []packagesv1.ChannelEntry {
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
