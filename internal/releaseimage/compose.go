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

// composition is a payload that is being put together. It only computes.
type composition struct {
	name       string
	components []component
	// files of the folder release-manifests by name, and those of manifests.
	files, own map[string][]byte
	// allowMissing lets components name images that the release does not have.
	allowMissing bool
	warnings     []string

	versions map[string]string
	// named are the images that a component lists.
	named map[string]bool
}

// compose adds what the operators bring, and replaces references and versions in all
// files. The base is an image whose own manifests stay where they are.
func (c *composition) compose(base string) error {
	slices.SortFunc(c.components, func(a, b component) int { return strings.Compare(a.name, b.name) })
	c.named = map[string]bool{}
	var err error
	if c.versions, err = componentVersions(c.components); err != nil {
		return err
	}
	if err := c.settleFiles(); err != nil {
		return err
	}

	var wrong []error
	for _, operator := range c.components {
		if !operator.isOperator || operator.name == base {
			continue
		}
		if err := c.contribute(operator); err != nil {
			wrong = append(wrong, fmt.Errorf("image %q: %w", operator.name, err))
		}
	}

	return errors.Join(wrong...)
}

// componentVersions collects the versions of components that the images tell.
func componentVersions(components []component) (map[string]string, error) {
	versions, from := map[string]string{}, map[string]string{}
	var wrong []error
	for _, c := range components {
		found, err := parseVersions(c.annotations[release.AnnotationVersions])
		if err != nil {
			wrong = append(wrong, fmt.Errorf("image %q: %s: %w", c.name, release.AnnotationVersions, err))
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(found)) {
			if known, ok := versions[key]; ok && known != found[key] {
				wrong = append(wrong, fmt.Errorf("component %s has version %s in the image %q, and %s in %q", key, known, from[key], found[key], c.name))
			}
			versions[key], from[key] = found[key], c.name
		}
	}

	return versions, errors.Join(wrong...)
}

// settleFiles replaces references and versions in the manifests at hand.
func (c *composition) settleFiles() error {
	var images []listed
	for _, component := range c.components {
		if component.listed != "" {
			images = append(images, listed{component.listed, component.pullSpec})
		}
	}

	rewriter := newRewriter(images)
	var wrong []error
	for _, files := range []map[string][]byte{c.own, c.files} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			data, err := replaceVersions(rewriter.rewrite(files[name]), c.name, c.versions)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
			}
			files[name] = data
		}
	}

	return errors.Join(wrong...)
}

// contribute adds the manifests of an operator.
func (c *composition) contribute(operator component) error {
	rewriter, err := c.rewriterOf(operator)
	if err != nil {
		return err
	}

	var wrong []error
	for _, file := range slices.Sorted(maps.Keys(operator.manifests)) {
		if file == fileImages {
			continue
		}
		data, err := replaceVersions(rewriter.rewrite(operator.manifests[file]), c.name, c.versions)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", file, err))
			continue
		}
		c.files[c.freeName(operator.name, file)] = data
	}

	return errors.Join(wrong...)
}

// rewriterOf replaces the images that an operator lists.
func (c *composition) rewriterOf(operator component) (rewriter, error) {
	data, ok := operator.manifests[fileImages]
	if !ok {
		return rewriter{}, nil
	}

	references, err := release.ParseUnnamedImageReferences(data, unnamedVersion)
	if err != nil {
		return rewriter{}, fmt.Errorf("%s: %w", fileImages, err)
	}

	var images []listed
	var wrong []error
	for _, tag := range references.Tags {
		i := slices.IndexFunc(c.components, func(known component) bool { return known.name == tag.Name })
		switch {
		case i >= 0:
			c.named[tag.Name] = true
			images = append(images, listed{tag.PullSpec, c.components[i].pullSpec})
		case c.allowMissing:
			c.warnings = append(c.warnings, fmt.Sprintf("image %q: no input image tag named %q", operator.name, tag.Name))
		default:
			wrong = append(wrong, fmt.Errorf("%s: no input image tag named %q", fileImages, tag.Name))
		}
	}

	return newRewriter(images), errors.Join(wrong...)
}

// freeName returns what a file of an operator is called in the release.
func (c *composition) freeName(operator, file string) string {
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

// prune drops the images that nothing names, and gives their names.
func (c *composition) prune() []string {
	var dropped []string
	c.components = slices.DeleteFunc(c.components, func(image component) bool {
		unused := !image.keep && !image.isOperator && !c.named[image.name] && !c.mentions(image.pullSpec)
		if unused {
			dropped = append(dropped, image.name)
		}
		return unused
	})

	return dropped
}

func (c *composition) mentions(pullSpec string) bool {
	for _, files := range []map[string][]byte{c.files, c.own} {
		for _, data := range files {
			if bytes.Contains(data, []byte(pullSpec)) {
				return true
			}
		}
	}

	return false
}

// references returns the images of the release.
func (c *composition) references() release.ImageReferences {
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
