// Package generate makes the inputs of the benchmarks: catalogs of any size that look
// like real ones. The same parameters give the same bytes.
package generate

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Size of a catalog.
type Size struct {
	// Packages of the catalog.
	Packages int
	// Bundles of the catalog, shared out evenly among the packages.
	Bundles int
	// BundleBytes is the size of a bundle's metadata: description, examples, APIs.
	BundleBytes int
	// IconBytes is the size of a package's icon before base64.
	IconBytes int
}

// Large is a catalog of about 75 MB: 300 packages and 4,000 bundles. 4,000 bundles of
// 16 kB and 300 icons of 12 kB, which base64 makes 16 kB, and the JSON around them are 75 MB.
var Large = Size{Packages: 300, Bundles: 4000, BundleBytes: 16_000, IconBytes: 12_000}

// Catalog writes a file-based catalog below dir, one JSON file for each package, and
// gives its size in bytes.
func Catalog(dir string, size Size) (int64, error) {
	random := rand.New(rand.NewPCG(1, 2))
	var total int64
	for i := range size.Packages {
		name := fmt.Sprintf("package-%03d", i)
		n, err := writePackage(filepath.Join(dir, name), name, size, size.Bundles*(i+1)/size.Packages-size.Bundles*i/size.Packages, random)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

func writePackage(dir, name string, size Size, bundles int, random *rand.Rand) (int64, error) {
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
	encoder.SetIndent("", "  ")
	for _, blob := range blobs(name, size, bundles, random) {
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

func blobs(name string, size Size, bundles int, random *rand.Rand) []any {
	icon := make([]byte, size.IconBytes)
	for i := range icon {
		icon[i] = byte(random.Uint32())
	}
	result := []any{map[string]any{
		"schema": "olm.package", "name": name, "defaultChannel": "stable", "description": text(random, 800),
		"icon": map[string]any{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/png"},
	}}
	var entries []any
	replaces := ""
	for i := range bundles {
		version := fmt.Sprintf("1.%d.%d", i/3, i%3)
		bundle := name + ".v" + version
		entry := map[string]any{"name": bundle}
		if replaces != "" {
			entry["replaces"] = replaces
		}
		entries = append(entries, entry)
		replaces = bundle
		result = append(result, map[string]any{
			"schema": "olm.bundle", "package": name, "name": bundle,
			"image":         fmt.Sprintf("registry.example.com/%s/bundle@sha256:%064x", name, random.Uint64()),
			"properties":    properties(name, version, size.BundleBytes, random),
			"relatedImages": []any{map[string]any{"name": "operator", "image": "registry.example.com/" + name + "/operator:v" + version}},
		})
	}
	channel := map[string]any{"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}
	return append(result, channel)
}

// properties of a bundle; of their size, about a tenth is names and punctuation.
func properties(name, version string, bytes int, random *rand.Rand) []any {
	result := []any{map[string]any{"type": "olm.package", "value": map[string]any{"packageName": name, "version": version}}}
	for i := range 4 {
		result = append(result, map[string]any{"type": "olm.gvk", "value": map[string]any{
			"group": name + ".example.com", "version": "v1", "kind": fmt.Sprintf("Kind%d", i),
		}})
	}
	return append(result, map[string]any{"type": "olm.csv.metadata", "value": map[string]any{
		"annotations":     map[string]any{"alm-examples": text(random, bytes*3/10), "capabilities": "Deep Insights"},
		"description":     text(random, bytes*5/10),
		"displayName":     strings.ToUpper(name),
		"installModes":    []any{map[string]any{"type": "AllNamespaces", "supported": true}},
		"crdDescriptions": map[string]any{"owned": []any{map[string]any{"name": "kinds." + name, "description": text(random, bytes/10)}}},
	}})
}

var words = strings.Fields(`the operator manages a cluster of "databases" and takes care of backups, updates and
	failover; its custom resource describes what is wanted: replicas, storage & memory, version <1.2.3>, and credentials`)

func text(random *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[random.IntN(len(words))])
		if b.WriteByte(' '); random.IntN(12) == 0 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
