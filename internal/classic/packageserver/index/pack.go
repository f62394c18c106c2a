package index

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
)

// maxStatusBytes limits the status of a package: 1,000 channels whose heads have 64 KiB each.
const maxStatusBytes = 64 << 20

// Package is a package of a catalog in compressed form. It is immutable.
type Package struct {
	// Name is the name of the package.
	Name string
	// Labels are the labels that the package adds to its PackageManifest.
	Labels map[string]string

	status []byte // a PackageStatus, as compressed JSON
	icon   Icon
	// iconCompressed is set if the data of the icon is compressed.
	iconCompressed bool
	sum            uint64 // of all that is served
}

// Icon is the icon of a package.
type Icon struct {
	// MediaType is the media type stated by the catalog, such as image/svg+xml.
	MediaType string
	// Data is the image. It is empty if the package has no icon.
	Data []byte
	// ETag is the ETag of the icon of this version of the package, including quotes.
	ETag string
}

// Packer compresses packages, one at a time. It is safe for concurrent use, and takes about 1.3 MB
// of memory.
type Packer struct{ encoder *zstd.Encoder }

// NewPacker returns a Packer, which does not have to be closed.
func NewPacker() *Packer {
	// The options are valid, so there is no error. The heads of channels have similar texts, a
	// few hundred kB apart; hence the window size.
	encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	return &Packer{encoder: encoder}
}

// sharedDecoder is safe for concurrent use.
var sharedDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxStatusBytes)) // The options are valid.
	return d
})

// Pack returns the compressed form of a package. It returns an error if the package is too
// large.
func (p *Packer) Pack(status *packagesv1.PackageStatus, labels map[string]string, icon Icon) (*Package, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("writing package %q as JSON: %w", status.PackageName, err)
	}
	if len(text) > maxStatusBytes {
		return nil, fmt.Errorf("package %q is too large: its channels describe it in %d bytes, of which %d are allowed", status.PackageName, len(text), maxStatusBytes)
	}

	packed := &Package{Name: status.PackageName, Labels: labels}
	sum := xxhash.New()
	_, _ = sum.Write(text)
	addLabelsToHash(sum, labels)
	packed.status = bytes.Clone(p.encoder.EncodeAll(text, nil))
	_, _ = fmt.Fprintf(sum, "%q%q", icon.MediaType, icon.ETag)
	_, _ = sum.Write(icon.Data)
	packed.icon = icon
	// Icons in text formats such as SVG become smaller.
	if compressed := p.encoder.EncodeAll(icon.Data, nil); len(compressed) < len(icon.Data)*7/8 {
		packed.icon.Data, packed.iconCompressed = bytes.Clone(compressed), true
	}

	packed.sum = sum.Sum64()
	return packed, nil
}

// Bytes returns the memory that the package takes, without its name and labels.
func (p *Package) Bytes() int { return len(p.status) + len(p.icon.Data) }

// Icon returns the icon of the package.
func (p *Package) Icon() (Icon, error) {
	icon := p.icon
	if p.iconCompressed {
		data, err := sharedDecoder().DecodeAll(icon.Data, nil)
		if err != nil {
			return Icon{}, fmt.Errorf("icon of package %q: %w", p.Name, err)
		}
		icon.Data = data
	}

	return icon, nil
}

// addLabelsToHash adds labels to a checksum, sorted by key.
func addLabelsToHash(sum *xxhash.Digest, texts map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		_, _ = fmt.Fprintf(sum, "%q=%q", key, texts[key])
	}
}

// comparePackageNames orders packages by name.
func comparePackageNames(a, b *Package) int { return cmp.Compare(a.Name, b.Name) }
