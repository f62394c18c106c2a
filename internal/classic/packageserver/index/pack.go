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

// maxStatusBytes bounds a package without its icon: 1,000 channels whose heads say 64 KiB each.
const maxStatusBytes = 64 << 20

// Package is a package of a catalog as it is held. It does not change.
type Package struct {
	// Name is the name of the package.
	Name string
	// Labels are those that the package itself gives its PackageManifest.
	Labels map[string]string

	status []byte // a PackageStatus, as compressed JSON
	icon   Icon
	// compressed says that the picture is.
	compressed bool
	sum        uint64 // of all that is served
}

// Icon is the picture of a package.
type Icon struct {
	// MediaType is what the catalog calls it, such as image/svg+xml.
	MediaType string
	// Data is the picture. It is empty for a package that has none.
	Data []byte
	// ETag names the picture of this version of the package, with its quotes.
	ETag string
}

// Packer makes Packages. It is for one goroutine at a time, and holds some 10 MB while it is used.
type Packer struct{ encoder *zstd.Encoder }

// NewPacker makes a Packer. It needs not be closed.
func NewPacker() *Packer {
	// The options are right, so that there is no error. Texts of the heads of channels repeat each
	// other, a few hundred kB apart.
	encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	return &Packer{encoder: encoder}
}

// decoder is for any number of goroutines.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxStatusBytes)) // The options are right.
	return d
})

// Pack makes a Package of what its catalog says. It fails for one that is too large.
func (p *Packer) Pack(status *packagesv1.PackageStatus, labels map[string]string, icon Icon) (*Package, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("writing package %q as JSON: %w", status.PackageName, err)
	}
	if len(text) > maxStatusBytes {
		return nil, fmt.Errorf("package %q is too large: its channels describe it in %d bytes, of which %d are allowed", status.PackageName, len(text), maxStatusBytes)
	}

	made := &Package{Name: status.PackageName, Labels: labels}
	sum := xxhash.New()
	_, _ = sum.Write(text)
	sumStrings(sum, labels)
	made.status = bytes.Clone(p.encoder.EncodeAll(text, nil))
	_, _ = fmt.Fprintf(sum, "%q%q", icon.MediaType, icon.ETag)
	_, _ = sum.Write(icon.Data)
	made.icon = icon
	// Pictures that are texts become smaller.
	if smaller := p.encoder.EncodeAll(icon.Data, nil); len(smaller) < len(icon.Data)*7/8 {
		made.icon.Data, made.compressed = bytes.Clone(smaller), true
	}

	made.sum = sum.Sum64()
	return made, nil
}

// Bytes is how much memory the package takes, without its names and labels.
func (p *Package) Bytes() int { return len(p.status) + len(p.icon.Data) }

// Icon returns the picture of the package.
func (p *Package) Icon() (Icon, error) {
	icon := p.icon
	if p.compressed {
		data, err := decoder().DecodeAll(icon.Data, nil)
		if err != nil {
			return Icon{}, fmt.Errorf("icon of package %q: %w", p.Name, err)
		}
		icon.Data = data
	}

	return icon, nil
}

// sumStrings adds labels to a sum, in the order of their names.
func sumStrings(sum *xxhash.Digest, texts map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		_, _ = fmt.Fprintf(sum, "%q=%q", key, texts[key])
	}
}

// byName orders packages.
func byName(a, b *Package) int { return cmp.Compare(a.Name, b.Name) }
