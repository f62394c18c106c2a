// Package generate makes the inputs of the benchmarks: catalogs of any size that look
// like real ones. The same parameters give the same bytes.
package generate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// Size of a catalog.
type Size struct {
	// Packages of the catalog, one file each.
	Packages int
	// Bundles of the catalog, shared out evenly among the packages.
	Bundles int
}

// Sizes of catalogs, named by what they have as compact JSON. A bundle has about 15 kB,
// a package about 25 kB more for its icon, as in the public catalogs.
var (
	// MB10 is a catalog of one vendor: 45 packages, 600 bundles.
	MB10 = Size{Packages: 45, Bundles: 600}
	// MB75 has the shape of a large public catalog: 300 packages, 4,000 bundles.
	MB75 = Size{Packages: 300, Bundles: 4000}
	// MB300 has several times what any public catalog has.
	MB300 = Size{Packages: 1300, Bundles: 17_500}
)

// Catalog writes a file-based catalog below dir, one file of indented JSON for each
// package, and gives its size in bytes.
func Catalog(dir string, size Size) (int64, error) {
	var total int64
	for i := range size.Packages {
		bundles := size.Bundles*(i+1)/size.Packages - size.Bundles*i/size.Packages
		// Each package has a source of its own, so that a catalog begins like a larger one.
		p := newPackage(i, bundles, rand.New(rand.NewPCG(1, uint64(i))))
		n, err := write(filepath.Join(dir, p.name), p.blobs())
		if err != nil {
			return total, err
		}

		total += n
	}

	return total, nil
}

func write(dir string, blobs []any) (int64, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}

	file, err := os.Create(filepath.Join(dir, "catalog.json"))
	if err != nil {
		return 0, err
	}

	defer file.Close()
	w := bufio.NewWriter(file)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "    ")
	for _, blob := range blobs {
		if err := encoder.Encode(blob); err != nil {
			return 0, err
		}
	}

	if err := w.Flush(); err != nil {
		return 0, err
	}

	info, err := file.Stat()
	if err != nil {
		return 0, err
	}

	return info.Size(), file.Close()
}

// pkg is a package that is being made.
type pkg struct {
	name     string
	number   int
	versions []string
	random   *rand.Rand
	// Texts that the bundles of a package share, as those of real ones do.
	description, examples string
	kinds                 []string
}

func newPackage(number, bundles int, random *rand.Rand) *pkg {
	p := &pkg{
		name: fmt.Sprintf("package-%04d", number), number: number, random: random,
		description: markdown(random, 1000+random.IntN(900)),
	}
	for i := range bundles {
		p.versions = append(p.versions, fmt.Sprintf("%d.%d.%d", 1+i/9, i/3%3, i%3))
	}

	for i := range 2 + random.IntN(3) {
		p.kinds = append(p.kinds, fmt.Sprintf("%sKind%d", title(words[random.IntN(len(words))]), i))
	}

	p.examples = p.almExamples()
	return p
}

func (p *pkg) bundle(i int) string { return p.name + ".v" + p.versions[i] }

// blobs of the package: itself, two to four channels, its bundles, and in every tenth
// package deprecations.
func (p *pkg) blobs() []any {
	result := []any{object{
		"schema": "olm.package", "name": p.name, "defaultChannel": "stable",
		"description": p.description[:800], "icon": icon(p.number, p.random),
	}}
	for i, name := range []string{"stable", "fast", "candidate", "preview"}[:2+p.number%3] {
		result = append(result, object{"schema": "olm.channel", "package": p.name, "name": name, "entries": p.entries(i)})
	}

	for i := range p.versions {
		result = append(result, object{
			"schema": "olm.bundle", "package": p.name, "name": p.bundle(i),
			"image": fmt.Sprintf("registry.example.com/%s/bundle@sha256:%064x", p.name, p.random.Uint64()),
			// The order is that of the field's tools.
			"properties": p.properties(i), "relatedImages": p.relatedImages(),
		})
	}

	if p.number%10 == 0 {
		result = append(result, p.deprecations())
	}

	return result
}

// entries of a channel. Every bundle replaces the one before; in the second channel each
// also skips the one before that, and in the third it covers a range.
func (p *pkg) entries(channel int) []any {
	var entries []any
	for i := range p.versions {
		entry := object{"name": p.bundle(i)}
		if i > 0 {
			entry["replaces"] = p.bundle(i - 1)
		}
		if channel == 1 && i > 1 {
			// What is skipped ends the chain, so that the one before stays in it.
			entry["skips"] = []any{p.name + ".v0.0." + strconv.Itoa(i)}
		}
		if channel >= 2 {
			entry["skipRange"] = "<" + p.versions[i]
		}

		entries = append(entries, entry)
	}

	return entries
}

func (p *pkg) deprecations() any {
	entries := []any{object{"reference": object{"schema": "olm.channel", "name": "fast"}, "message": "The channel fast gets no more updates: move to stable."}}
	if len(p.versions) > 1 {
		entries = append(entries, object{
			"reference": object{"schema": "olm.bundle", "name": p.bundle(0)},
			"message":   p.bundle(0) + " is out of support: update to " + p.bundle(len(p.versions)-1) + ".",
		})
	}

	return object{"schema": "olm.deprecations", "package": p.name, "entries": entries}
}
