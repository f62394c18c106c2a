package releaseimage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// composition is a payload that is being composed. It does no I/O.
type composition struct {
	name       string
	components []component
	// files are the files of release-manifests by name, own those of manifests.
	files, own map[string][]byte
	// allowMissing allows components to name images that the release does not have.
	allowMissing bool
	warnings     []string

	versions map[string]string
	// listedImages are the images that a component lists.
	listedImages map[string]bool
}

// composeManifests adds the manifests of operators, and replaces references and versions in all
// files. The image named base is skipped: its manifests stay in the base image.
func (c *composition) composeManifests(base string) error {
	slices.SortFunc(c.components, func(a, b component) int { return strings.Compare(a.name, b.name) })
	c.listedImages = map[string]bool{}
	var err error
	if c.versions, err = collectComponentVersions(c.components); err != nil {
		return err
	}
	if err := c.rewriteFiles(); err != nil {
		return err
	}

	var errs []error
	for _, operator := range c.components {
		if !operator.isOperator || operator.name == base {
			continue
		}
		if err := c.addOperatorManifests(operator); err != nil {
			errs = append(errs, fmt.Errorf("image %q: %w", operator.name, err))
		}
	}

	return errors.Join(errs...)
}

// collectComponentVersions returns the versions of components that the images state.
func collectComponentVersions(components []component) (map[string]string, error) {
	versions, from := map[string]string{}, map[string]string{}
	var errs []error
	for _, c := range components {
		found, err := parseVersions(c.annotations[release.AnnotationVersions])
		if err != nil {
			errs = append(errs, fmt.Errorf("image %q: %s: %w", c.name, release.AnnotationVersions, err))
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(found)) {
			if known, ok := versions[key]; ok && known != found[key] {
				errs = append(errs, fmt.Errorf("component %s has version %s in the image %q, and %s in %q", key, known, from[key], found[key], c.name))
			}
			versions[key], from[key] = found[key], c.name
		}
	}

	return versions, errors.Join(errs...)
}

// rewriteFiles replaces references and versions in the existing manifests.
func (c *composition) rewriteFiles() error {
	var images []imageReplacement
	for _, component := range c.components {
		if component.listedAs != "" {
			images = append(images, imageReplacement{component.listedAs, component.pullSpec})
		}
	}

	rewriter := newRewriter(images)
	var errs []error
	for _, files := range []map[string][]byte{c.own, c.files} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			data, err := replaceVersions(rewriter.replaceImages(files[name]), c.name, c.versions)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
			files[name] = data
		}
	}

	return errors.Join(errs...)
}

// addOperatorManifests adds the manifests of an operator.
func (c *composition) addOperatorManifests(operator component) error {
	rewriter, err := c.newOperatorRewriter(operator)
	if err != nil {
		return err
	}

	var errs []error
	for _, file := range slices.Sorted(maps.Keys(operator.manifests)) {
		if file == fileImages {
			continue
		}
		data, err := replaceVersions(rewriter.replaceImages(operator.manifests[file]), c.name, c.versions)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
			continue
		}
		c.files[c.uniqueFileName(operator.name, file)] = data
	}

	return errors.Join(errs...)
}

// newOperatorRewriter returns a rewriter for the images that an operator lists.
func (c *composition) newOperatorRewriter(operator component) (rewriter, error) {
	data, ok := operator.manifests[fileImages]
	if !ok {
		return rewriter{}, nil
	}

	references, err := release.ParseUnnamedImageReferences(data, unnamedVersion)
	if err != nil {
		return rewriter{}, fmt.Errorf("%s: %w", fileImages, err)
	}

	var images []imageReplacement
	var errs []error
	for _, tag := range references.Tags {
		i := slices.IndexFunc(c.components, func(known component) bool { return known.name == tag.Name })
		switch {
		case i >= 0:
			c.listedImages[tag.Name] = true
			images = append(images, imageReplacement{tag.PullSpec, c.components[i].pullSpec})
		case c.allowMissing:
			c.warnings = append(c.warnings, fmt.Sprintf("image %q: no input image tag named %q", operator.name, tag.Name))
		default:
			errs = append(errs, fmt.Errorf("%s: no input image tag named %q", fileImages, tag.Name))
		}
	}

	return newRewriter(images), errors.Join(errs...)
}

// uniqueFileName returns an unused name for the file of an operator.
func (c *composition) uniqueFileName(operator, file string) string {
	if !strings.HasPrefix(file, "0000_") {
		file = "0000_50_" + operator + "_" + file
	}

	extension := path.Ext(file)
	base := strings.TrimSuffix(file, extension)
	for i := 2; ; i++ {
		if _, taken := c.files[file]; !taken {
			return file
		}
		file = fmt.Sprintf("%s_%d%s", base, i, extension)
	}
}

// pruneUnusedImages removes the images that nothing uses, and returns their names.
func (c *composition) pruneUnusedImages() []string {
	var dropped []string
	c.components = slices.DeleteFunc(c.components, func(image component) bool {
		unused := !image.isRequired && !image.isOperator && !c.listedImages[image.name] && !c.mentionsImage(image.pullSpec)
		if unused {
			dropped = append(dropped, image.name)
		}
		return unused
	})

	return dropped
}

func (c *composition) mentionsImage(pullSpec string) bool {
	for _, files := range []map[string][]byte{c.files, c.own} {
		for _, data := range files {
			if bytes.Contains(data, []byte(pullSpec)) {
				return true
			}
		}
	}

	return false
}

// imageReferences returns the images of the release.
func (c *composition) imageReferences() release.ImageReferences {
	images := release.ImageReferences{Name: c.name}
	for _, component := range c.components {
		tag := release.ImageTag{Name: component.name, PullSpec: component.pullSpec}
		if len(component.annotations) > 0 {
			tag.Annotations = component.annotations
		}
		images.Tags = append(images.Tags, tag)
	}

	slices.SortFunc(images.Tags, func(a, b release.ImageTag) int { return cmp.Compare(a.Name, b.Name) })
	return images
}
