// Package generate generates the inputs of the benchmarks: catalogs of any size that resemble
// real ones. The same parameters generate the same bytes.
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

// Size is the size of a catalog.
type Size struct {
	// Packages is the number of packages, one file each.
	Packages int
	// Bundles is the number of bundles, distributed evenly among the packages.
	Bundles int
}

// Sizes of catalogs, named by their size as compact JSON. A bundle has about 15 kB, and a
// package about 25 kB more for its icon, as in the public catalogs.
var (
	// MB10 is a catalog of one vendor: 45 packages, 600 bundles.
	MB10 = Size{Packages: 45, Bundles: 600}
	// MB75 has the shape of a large public catalog: 300 packages, 4,000 bundles.
	MB75 = Size{Packages: 300, Bundles: 4000}
	// MB300 is several times as large as any public catalog.
	MB300 = Size{Packages: 1300, Bundles: 17_500}
)

// Catalog writes a file-based catalog below dir, one file of indented JSON for each package. It
// returns the size in bytes.
func Catalog(dir string, size Size) (int64, error) {
	var total int64
	for i := range size.Packages {
		bundles := size.Bundles*(i+1)/size.Packages - size.Bundles*i/size.Packages
		// Each package has its own random source, so that a catalog is a prefix of a larger one.
		p := newPackage(i, bundles, rand.New(rand.NewPCG(1, uint64(i))))
		n, err := writeCatalogFile(filepath.Join(dir, p.name), p.generateBlobs())
		if err != nil {
			return total, err
		}

		total += n
	}

	return total, nil
}

func writeCatalogFile(dir string, blobs []any) (int64, error) {
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

// generatedPackage is the state of generating a package.
type generatedPackage struct {
	name     string
	number   int
	versions []string
	random   *rand.Rand
	// Texts that the bundles of a package share, as those of real ones do.
	description, examples string
	kinds                 []string
}

func newPackage(number, bundles int, random *rand.Rand) *generatedPackage {
	p := &generatedPackage{
		name: fmt.Sprintf("package-%04d", number), number: number, random: random,
		description: generateMarkdown(random, 1000+random.IntN(900)),
	}
	for i := range bundles {
		p.versions = append(p.versions, fmt.Sprintf("%d.%d.%d", 1+i/9, i/3%3, i%3))
	}

	for i := range 2 + random.IntN(3) {
		p.kinds = append(p.kinds, fmt.Sprintf("%sKind%d", capitalizeWord(words[random.IntN(len(words))]), i))
	}

	p.examples = p.generateExamples()
	return p
}

func (p *generatedPackage) bundleName(i int) string { return p.name + ".v" + p.versions[i] }

// generateBlobs returns the blobs of the package: the olm.package blob, two to four channels, its
// bundles, and in every tenth package deprecations.
func (p *generatedPackage) generateBlobs() []any {
	result := []any{jsonObject{
		"schema": "olm.package", "name": p.name, "defaultChannel": "stable",
		"description": p.description[:800], "icon": generateIcon(p.number, p.random),
	}}
	for i, name := range []string{"stable", "fast", "candidate", "preview"}[:2+p.number%3] {
		result = append(result, jsonObject{"schema": "olm.channel", "package": p.name, "name": name, "entries": p.channelEntries(i)})
	}

	for i := range p.versions {
		result = append(result, jsonObject{
			"schema": "olm.bundle", "package": p.name, "name": p.bundleName(i),
			"image": fmt.Sprintf("registry.example.com/%s/bundle@sha256:%064x", p.name, p.random.Uint64()),
			// The order is that of opm.
			"properties": p.bundleProperties(i), "relatedImages": p.generateRelatedImages(),
		})
	}

	if p.number%10 == 0 {
		result = append(result, p.generateDeprecations())
	}

	return result
}

// channelEntries returns the entries of a channel. Every bundle replaces the previous one. In the
// second channel each bundle also skips one, and in further channels it covers a range.
func (p *generatedPackage) channelEntries(channel int) []any {
	var entries []any
	for i := range p.versions {
		entry := jsonObject{"name": p.bundleName(i)}
		if i > 0 {
			entry["replaces"] = p.bundleName(i - 1)
		}
		if channel == 1 && i > 1 {
			// A skipped entry ends the replaces chain, so a name outside of the chain is skipped.
			entry["skips"] = []any{p.name + ".v0.0." + strconv.Itoa(i)}
		}
		if channel >= 2 {
			entry["skipRange"] = "<" + p.versions[i]
		}

		entries = append(entries, entry)
	}

	return entries
}

func (p *generatedPackage) generateDeprecations() any {
	entries := []any{jsonObject{"reference": jsonObject{"schema": "olm.channel", "name": "fast"}, "message": "The channel fast gets no more updates: move to stable."}}
	if len(p.versions) > 1 {
		entries = append(entries, jsonObject{
			"reference": jsonObject{"schema": "olm.bundle", "name": p.bundleName(0)},
			"message":   p.bundleName(0) + " is out of support: update to " + p.bundleName(len(p.versions)-1) + ".",
		})
	}

	return jsonObject{"schema": "olm.deprecations", "package": p.name, "entries": entries}
}
