package template

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// substitution replaces a bundle by the bundle of an image.
type substitution struct {
	// Name is the reference of the image.
	Name string `json:"name"`
	// Base is the name of the bundle to replace.
	Base string `json:"base"`
}

func renderSubstitutesTemplate(ctx context.Context, input []byte, r Renderer) ([]fbc.Meta, error) {
	d, blobs, err := readTemplateDocument(Substitutes, input)
	if err != nil {
		return nil, fmt.Errorf("render: unable to parse template: %w", err)
	}
	if err := checkBlobSchemas(blobs); err != nil {
		return nil, fmt.Errorf("render: unable to create declarative config from entries: %w", err)
	}
	if err := fbc.Validate(iterateBlobs(blobs)); err != nil {
		return nil, fmt.Errorf("render: entries are not valid FBC: %w", err)
	}
	if err := checkSubstitutions(d.Substitutions); err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}

	c, err := newSubstitutableCatalog(blobs)
	if err != nil {
		return nil, fmt.Errorf("render: unable to create declarative config from entries: %w", err)
	}

	for _, s := range d.Substitutions {
		if err := c.applySubstitution(ctx, s, r); err != nil {
			return nil, fmt.Errorf("render: error processing substitution %q -> %q: %w", s.Base, s.Name, err)
		}
	}

	if blobs, err = c.encodeModifiedBlobs(); err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	if err := fbc.Validate(iterateBlobs(blobs)); err != nil {
		return nil, fmt.Errorf("render: resulting config is not valid FBC: %w", err)
	}

	return blobs, nil
}

// checkSubstitutions returns an error if a base or a name occurs twice.
func checkSubstitutions(substitutions []substitution) error {
	bases, names := map[string]bool{}, map[string]string{}
	for _, s := range substitutions {
		if bases[s.Base] {
			return fmt.Errorf("cannot reuse the same substitution base %q", s.Base)
		}
		if base, seen := names[s.Name]; seen {
			return fmt.Errorf("cannot reuse the same substitution %q for different bases (%q and %q)", s.Name, base, s.Base)
		}
		bases[s.Base], names[s.Name] = true, s.Base
	}

	return nil
}

// substitutableCatalog is a catalog to which substitutions are applied.
type substitutableCatalog struct {
	blobs []fbc.Meta
	// channels are the channels by their index in blobs.
	channels map[int]*fbc.Channel
	bundles  []*fbc.Bundle
}

func newSubstitutableCatalog(blobs []fbc.Meta) (*substitutableCatalog, error) {
	c := &substitutableCatalog{blobs: slices.Clone(blobs), channels: map[int]*fbc.Channel{}}
	for i, blob := range blobs {
		var err error
		switch blob.Schema {
		case fbc.SchemaChannel:
			c.channels[i], err = fbc.DecodeChannel(blob)
		case fbc.SchemaBundle:
			var b *fbc.Bundle
			b, err = fbc.DecodeBundle(blob)
			c.bundles = append(c.bundles, b)
		}
		if err != nil {
			return nil, err
		}
	}

	return c, nil
}

// encodeModifiedBlobs returns the blobs with the modified channels.
func (c *substitutableCatalog) encodeModifiedBlobs() ([]fbc.Meta, error) {
	for i, channel := range c.channels {
		meta, err := parseSingleBlob(channel.AppendJSON(nil))
		if err != nil {
			return nil, err
		}
		c.blobs[i] = meta
	}

	return c.blobs, nil
}

func (c *substitutableCatalog) applySubstitution(ctx context.Context, s substitution, r Renderer) error {
	switch {
	case s.Name == "":
		return errors.New("substitution name cannot be empty")
	case s.Base == "":
		return errors.New("substitution base cannot be empty")
	case s.Name == s.Base:
		return errors.New("substitution name and base cannot be the same")
	}

	rendered, err := r.Render(ctx, s.Name)
	if err != nil {
		return fmt.Errorf("failed to render bundle image reference %q: %w", s.Name, err)
	}
	if len(rendered) == 0 {
		return fmt.Errorf("rendered bundle image reference %q contains no bundles", s.Name)
	}

	substitute, err := fbc.DecodeBundle(rendered[0].Blob)
	if err != nil {
		return fmt.Errorf("failed to render bundle image reference %q: %w", s.Name, err)
	}

	base, err := c.findBaseBundle(s, substitute)
	if err != nil {
		return err
	}

	for _, channel := range c.channels {
		if channel.Package == base.Package {
			substituteInChannel(channel, base.Name, substitute.Name)
		}
	}

	c.blobs = append(c.blobs, rendered[0].Blob)
	c.bundles = append(c.bundles, substitute)
	return nil
}

// findBaseBundle returns the bundle to replace. Its version must be lower than that of the
// substitute.
func (c *substitutableCatalog) findBaseBundle(s substitution, substitute *fbc.Bundle) (*fbc.Bundle, error) {
	to, err := substitute.VersionRelease()
	if err != nil {
		return nil, fmt.Errorf("failed to get VersionRelease for substitute bundle %q: %w", substitute.Name, err)
	}

	i := slices.IndexFunc(c.bundles, func(b *fbc.Bundle) bool { return b.Name == s.Base })
	if i < 0 {
		return nil, fmt.Errorf("base bundle %q does not exist in catalog", s.Base)
	}

	from, err := c.bundles[i].VersionRelease()
	if err != nil {
		return nil, fmt.Errorf("failed to get VersionRelease for base bundle %q: %w", s.Base, err)
	}
	if from.Compare(to) >= 0 {
		return nil, fmt.Errorf("base bundle %q is not less than substitute bundle %q", s.Base, substitute.Name)
	}

	return c.bundles[i], nil
}

// substituteInChannel replaces a bundle in a channel. The substitute gets the edges of the base
// and skips it. Entries that replaced the base now replace the substitute and skip the base.
func substituteInChannel(channel *fbc.Channel, base, substitute string) {
	at := slices.IndexFunc(channel.Entries, func(e fbc.ChannelEntry) bool { return e.Name == base })
	for i := range channel.Entries {
		switch entry := &channel.Entries[i]; {
		case i == at:
		case entry.Replaces == base:
			entry.Replaces = substitute
			entry.Skips = append(entry.Skips, base)
		case slices.Contains(entry.Skips, base):
			entry.Skips = append(slices.DeleteFunc(entry.Skips, func(skip string) bool { return skip == base }), substitute)
		}
	}

	if at < 0 {
		return
	}

	entry := channel.Entries[at]
	entry.Name, entry.Skips = substitute, append(entry.Skips, base)
	channel.Entries[at] = fbc.ChannelEntry{Name: base}
	channel.Entries = append(channel.Entries, entry)
}

func iterateBlobs(blobs []fbc.Meta) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for _, blob := range blobs {
			if !yield(blob, nil) {
				return
			}
		}
	}
}
