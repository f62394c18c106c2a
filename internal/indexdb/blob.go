package indexdb

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// shownBundle is a bundle that a package of the catalog contains.
type shownBundle struct {
	version, image, skipRange string
}

// findShownBundle reads the columns that are needed before the bundle itself. It returns
// nil for a bundle that the catalog does not contain.
func (r *metaReader) findShownBundle(ctx context.Context, name string) (*shownBundle, error) {
	if r.deprecated[name] && !r.served {
		return nil, nil
	}

	var version, image, skipRange sql.NullString
	var content bool
	err := r.statements.find.QueryRowContext(ctx, name).Scan(&version, &image, &skipRange, &content)
	if errors.Is(err, sql.ErrNoRows) { // An entry names it, but it has no row.
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	switch {
	case !version.Valid:
		r.opts.warn(fmt.Sprintf("bundle %q ignored: it has no version", name), nil)
		return nil, nil
	case image.String == "" && !content:
		r.opts.warn(fmt.Sprintf("bundle %q ignored: it has neither an image nor manifests", name), nil)
		return nil, nil
	default:
		return &shownBundle{version.String, image.String, skipRange.String}, nil
	}
}

// readIcon reads the icon of a package from the CSV of its default channel's head. It
// returns nil if there is none.
func (r *metaReader) readIcon(ctx context.Context, head string) (*fbc.Icon, error) {
	var content sql.NullString
	err := r.csv.QueryRowContext(ctx, head).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) || err == nil && content.String == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	csv, err := parseCSV([]byte(content.String))
	if err != nil {
		r.opts.warn(fmt.Sprintf("icon of bundle %q ignored", head), err)
		return nil, nil
	}
	if len(csv.Spec.Icon) == 0 {
		return nil, nil
	}

	icon := csv.Spec.Icon[0]
	data, err := base64.StdEncoding.DecodeString(icon.Data)
	if err != nil {
		data, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(icon.Data, " ", ""))
	}
	if err != nil {
		r.opts.warn(fmt.Sprintf("icon of bundle %q ignored", head), err)
		return nil, nil
	}

	return &fbc.Icon{Data: data, MediaType: icon.MediaType}, nil
}

// newChannelBlob returns the blob of a channel with the bundles that the catalog contains.
// Edges to other bundles are kept, because an update from them is possible.
func newChannelBlob(pkg, name string, graph channelGraph, bundles map[string]*shownBundle) fbc.Channel {
	blob := fbc.Channel{Schema: fbc.SchemaChannel, Package: pkg, Name: name}
	for _, bundle := range graph.bundleNames() {
		shown := bundles[bundle]
		if shown == nil {
			continue
		}
		e := graph.edges[bundle]
		blob.Entries = append(blob.Entries, fbc.ChannelEntry{Name: bundle, Replaces: e.replaces, Skips: e.skips, SkipRange: shown.skipRange})
	}

	return blob
}

// readBundleBlob reads a bundle and returns its blob.
func (r *metaReader) readBundleBlob(ctx context.Context, pkg, name string, shown *shownBundle) (json.RawMessage, error) {
	var csv, content []byte
	if err := r.content.QueryRowContext(ctx, name).Scan(&csv, &content); err != nil {
		return nil, err
	}

	properties, err := r.readBundleProperties(ctx, pkg, name, shown.version)
	if err != nil {
		return nil, err
	}
	if len(content) == 0 {
		content = csv
	}

	objects, err := splitObjects(content)
	if err != nil {
		return nil, err
	}

	for _, object := range objects {
		value := append(base64.StdEncoding.AppendEncode([]byte(`{"data":"`), object), `"}`...)
		properties = append(properties, fbc.Property{Type: fbc.PropertyBundleObject, Value: value})
	}

	slices.SortFunc(properties, compareProperties)
	properties = slices.CompactFunc(properties, func(a, b fbc.Property) bool { return compareProperties(a, b) == 0 })
	images, err := r.readRelatedImages(ctx, name, csv)
	if err != nil {
		return nil, err
	}

	var record json.RawMessage
	if r.served {
		found, err := r.readRecord(ctx, name)
		if err != nil {
			return nil, err
		}
		if record, err = encodeCanonical(found); err != nil {
			return nil, err
		}
	}

	return encodeBundleBlob(pkg, name, shown.image, properties, record, images), nil
}

// encodeBundleBlob encodes the blob of a bundle in its canonical form. It does not use a
// JSON encoder, because most of a catalog are such blobs, and most of their values are
// already in this form. The record may be empty.
func encodeBundleBlob(pkg, name, image string, properties []fbc.Property, record json.RawMessage, images []fbc.RelatedImage) json.RawMessage {
	size := 256 + len(pkg) + len(name) + len(image) + len(record)
	for _, p := range properties {
		size += 32 + len(p.Type) + len(p.Value)
	}

	for _, i := range images {
		size += 32 + len(i.Name) + len(i.Image)
	}

	blob := append(make([]byte, 0, size), `{"image":`...)
	blob = jsontext.AppendQuoted(blob, image)
	blob = jsontext.AppendQuoted(append(blob, `,"name":`...), name)
	blob = jsontext.AppendQuoted(append(blob, `,"package":`...), pkg)
	blob = append(blob, `,"properties":[`...)
	for i, p := range properties {
		blob = append(blob, `{"type":`...)
		blob = jsontext.AppendQuoted(blob, p.Type)
		blob = append(append(blob, `,"value":`...), p.Value...)
		blob = append(blob, "},"[:1+min(1, len(properties)-1-i)]...)
	}

	blob = append(blob, ']')
	if len(record) > 0 {
		blob = append(append(blob, `,"`+recordField+`":`...), record...)
	}

	for i, related := range images {
		blob = append(blob, []string{`,"relatedImages":[{"image":`, `,{"image":`}[min(i, 1)]...)
		blob = jsontext.AppendQuoted(blob, related.Image)
		blob = jsontext.AppendQuoted(append(blob, `,"name":`...), related.Name)
		blob = append(blob, "}]"[:1+max(0, i+2-len(images))]...)
	}

	return append(blob, `,"schema":"`+fbc.SchemaBundle+`"}`...)
}

func compareProperties(a, b fbc.Property) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), bytes.Compare(a.Value, b.Value))
}

// readBundleProperties returns the properties of a bundle without its manifests, unsorted.
func (r *metaReader) readBundleProperties(ctx context.Context, pkg, name, version string) ([]fbc.Property, error) {
	properties, err := readProperties(ctx, r.property, r.properties[name])
	if err != nil {
		return nil, err
	}

	dependencies, err := readProperties(ctx, r.dependency, r.dependencies[name])
	if err != nil {
		return nil, err
	}

	for _, dependency := range dependencies {
		stated, err := bundle.PropertyOfDependency(dependency)
		if err != nil {
			return nil, fmt.Errorf("dependency of type %q: %w", dependency.Type, err)
		}
		properties = append(properties, stated)
	}

	if !slices.ContainsFunc(properties, func(p fbc.Property) bool { return p.Type == fbc.PropertyPackage }) {
		value, err := encodeCanonical(fbc.PackageProperty{PackageName: pkg, Version: version})
		if err != nil {
			return nil, err
		}
		properties = append(properties, fbc.Property{Type: fbc.PropertyPackage, Value: value})
	}

	return properties, nil
}

// readProperties reads rows of the tables properties or dependencies, with values in
// canonical form.
func readProperties(ctx context.Context, statement *sql.Stmt, ids []int64) ([]fbc.Property, error) {
	if len(ids) == 0 {
		return nil, nil
	}

	rows, err := statement.QueryContext(ctx, encodeRowIDs(ids))
	if err != nil {
		return nil, err
	}

	var properties []fbc.Property
	err = forEachRow(rows, func() error {
		var propertyType sql.NullString
		var value sql.RawBytes
		if err := rows.Scan(&propertyType, &value); err != nil {
			return err
		}
		if !propertyType.Valid || len(value) == 0 {
			return nil
		}

		compact, n, err := jsontext.Compact(nil, value, maxNestingDepth)
		if err == nil && len(bytes.TrimSpace(value[n:])) > 0 {
			err = errors.New("there is text after it")
		}
		if err != nil {
			return fmt.Errorf("property of type %q: its value is not JSON: %w", propertyType.String, err)
		}

		properties = append(properties, fbc.Property{Type: propertyType.String, Value: compact})
		return nil
	})

	return properties, err
}

// encodeRowIDs returns the argument of whereRowIDs.
func encodeRowIDs(ids []int64) string {
	list := make([]byte, 0, 8*len(ids)+2)
	separator := byte('[')
	for _, id := range ids {
		list = strconv.AppendInt(append(list, separator), id, 10)
		separator = ','
	}
	return string(append(list, ']'))
}

// readRelatedImages returns the images that the CSV lists, with their names, and those of
// the bundle's rows.
func (r *metaReader) readRelatedImages(ctx context.Context, name string, csvText []byte) ([]fbc.RelatedImage, error) {
	var images []fbc.RelatedImage
	known := map[string]bool{}
	if len(csvText) > 0 {
		csv, err := parseCSV(csvText)
		if err != nil {
			r.opts.warn(fmt.Sprintf("related images of bundle %q may be incomplete", name), err)
		} else {
			for _, related := range csv.Spec.RelatedImages {
				images = append(images, fbc.RelatedImage{Name: related.Name, Image: related.Image})
				known[related.Image] = true
			}
		}
	}

	var others []string
	if ids := r.images[name]; len(ids) > 0 {
		rows, err := r.image.QueryContext(ctx, encodeRowIDs(ids))
		if err != nil {
			return nil, err
		}
		err = forEachRow(rows, func() error {
			var image sql.NullString
			err := rows.Scan(&image)
			if image.String != "" && !known[image.String] {
				known[image.String] = true
				others = append(others, image.String)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}

	slices.Sort(others)
	for _, image := range others {
		images = append(images, fbc.RelatedImage{Image: image})
	}

	return images, nil
}
