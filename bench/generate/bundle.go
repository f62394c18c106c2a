package generate

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// jsonObject is a JSON object. encoding/json sorts its keys.
type jsonObject = map[string]any

// bundleProperties returns the properties of a bundle.
func (p *generatedPackage) bundleProperties(i int) []any {
	group := p.name + ".example.com"
	var result []any
	for _, kind := range p.kinds {
		result = append(result, newProperty("olm.gvk", jsonObject{"group": group, "kind": kind, "version": "v1"}))
		result = append(result, newProperty("olm.gvk", jsonObject{"group": group, "kind": kind, "version": "v1alpha1"}))
	}

	result = append(result, newProperty("olm.gvk.required", jsonObject{"group": "monitoring.example.com", "kind": "ServiceMonitor", "version": "v1"}))
	result = append(result, newProperty("olm.package", jsonObject{"packageName": p.name, "version": p.versions[i]}))
	return append(result, newProperty("olm.csv.metadata", p.csvMetadata(i)))
}

func newProperty(name string, value any) any { return jsonObject{"type": name, "value": value} }

// csvMetadata returns the olm.csv.metadata value of a bundle.
func (p *generatedPackage) csvMetadata(i int) any {
	var owned []any
	for _, kind := range p.kinds {
		var resources []any
		for _, name := range []string{"Deployment", "Service", "Secret"} {
			resources = append(resources, jsonObject{"kind": name, "name": "", "version": "v1"})
		}

		var specs []any
		for j, path := range []string{"replicas", "storage.size"} {
			specs = append(specs, jsonObject{
				"description": kind + ": " + p.description[100*j:100*j+90], "displayName": capitalizeWord(path), "path": path,
				"x-descriptors": []any{"urn:alm:descriptor:com.tectonic.ui:advanced", "urn:alm:descriptor:com.tectonic.ui:text"},
			})
		}

		owned = append(owned, jsonObject{
			"name": strings.ToLower(kind) + "s." + p.name + ".example.com", "version": "v1", "kind": kind,
			"displayName": kind, "description": kind + " " + p.description[:100], "resources": resources, "specDescriptors": specs,
		})
	}

	return jsonObject{
		"annotations": jsonObject{
			"alm-examples": p.examples, "capabilities": "Deep Insights", "categories": "Database, Monitoring",
			"certified": "false", "containerImage": p.imageReference("operator", i), "createdAt": fmt.Sprintf("2026-%02d-%02dT08:00:00Z", 1+i%12, 1+i%28),
			"repository": "https://git.example.com/" + p.name, "support": "The makers of " + p.name,
		},
		"apiServiceDefinitions": jsonObject{},
		"crdDescriptions":       jsonObject{"owned": owned},
		"description":           p.description + "\n\n## What is new in " + p.versions[i] + "\n\n" + generateSentence(p.random, 2400) + ".\n",
		"displayName":           capitalizeWord(p.name),
		"installModes": []any{
			jsonObject{"supported": true, "type": "OwnNamespace"}, jsonObject{"supported": true, "type": "SingleNamespace"},
			jsonObject{"supported": false, "type": "MultiNamespace"}, jsonObject{"supported": true, "type": "AllNamespaces"},
		},
		"keywords":    []any{"database", "storage", p.name},
		"links":       []any{jsonObject{"name": "Documentation", "url": "https://docs.example.com/" + p.name}},
		"maintainers": []any{jsonObject{"name": "The makers", "email": "makers@" + p.name + ".example.com"}},
		"maturity":    "stable",
		"provider":    jsonObject{"name": "The makers of " + p.name, "url": "https://example.com"},
	}
}

// generateExamples returns the annotation alm-examples with an example of each kind, which is
// JSON in a string.
func (p *generatedPackage) generateExamples() string {
	var examples []any
	for _, kind := range p.kinds {
		examples = append(examples, jsonObject{
			"apiVersion": p.name + ".example.com/v1", "kind": kind, "metadata": jsonObject{"name": "example", "namespace": "default"},
			"spec": jsonObject{
				"replicas": 3, "image": p.imageReference("server", 0), "storage": jsonObject{"size": "10Gi", "class": "fast"},
				"resources": jsonObject{"limits": jsonObject{"cpu": "500m", "memory": "1Gi"}, "requests": jsonObject{"cpu": "100m", "memory": "256Mi"}},
				"users":     []any{jsonObject{"name": "admin", "secret": "admin-password"}, jsonObject{"name": "reader", "secret": "reader-password"}},
				"note":      generateSentence(p.random, 600),
			},
		})
	}

	text, err := json.MarshalIndent(examples, "", "  ")
	if err != nil {
		panic(err) // The values above can always be marshaled.
	}

	return string(text)
}

func (p *generatedPackage) imageReference(name string, i int) string {
	return fmt.Sprintf("registry.example.com/%s/%s@sha256:%064x", p.name, name, uint64(p.number)<<32|uint64(i))
}

func (p *generatedPackage) generateRelatedImages() []any {
	var images []any
	for _, name := range []string{"operator", "proxy", "server", "exporter", "backup"} {
		digest := fmt.Sprintf("%016x%016x%016x%016x", p.random.Uint64(), p.random.Uint64(), p.random.Uint64(), p.random.Uint64())
		images = append(images, jsonObject{"image": "registry.example.com/" + p.name + "/" + name + "@sha256:" + digest, "name": name})
	}
	return images
}

// generateIcon returns an SVG image, or for every other package a PNG image, which does not
// compress. Its base64 has 10 to 40 kB.
func generateIcon(number int, random *rand.Rand) any {
	size := 7500 + random.IntN(22_500)
	if number%2 == 1 {
		data := make([]byte, size)
		copy(data, "\x89PNG\r\n\x1a\n")
		for i := 8; i < size; i++ {
			data[i] = byte(random.Uint32())
		}
		return jsonObject{"base64data": base64.StdEncoding.EncodeToString(data), "mediatype": "image/png"}
	}

	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">`)
	for b.Len() < size {
		fmt.Fprintf(&b, `<path fill="#%06x" d="M%d.%d %d.%dL%d %dz"/>`, random.IntN(1<<24), random.IntN(100), random.IntN(10), random.IntN(100), random.IntN(10), random.IntN(100), random.IntN(100))
	}

	b.WriteString("</svg>")
	return jsonObject{"base64data": base64.StdEncoding.EncodeToString([]byte(b.String())), "mediatype": "image/svg+xml"}
}

var words = strings.Fields(`the operator manages a cluster of "databases" and takes care of backups, updates and
	failover; its custom resource describes what is wanted: replicas, storage & memory, version <1.2.3>, and credentials
	metrics alerts dashboards certificates rotation encryption network policies quotas limits regions zones disks volumes
	snapshots restores clones tenants users roles permissions audit logs traces queues topics streams schemas tables`)

func capitalizeWord(word string) string {
	word = strings.Trim(word, `"<>&,;:.`)
	if word == "" {
		return "X"
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

func generateSentence(random *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[random.IntN(len(words))])
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// generateMarkdown returns a text of headings, paragraphs, lists and code, with about n bytes.
func generateMarkdown(random *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "## %s\n\n%s.\n\n", capitalizeWord(generateSentence(random, 12)), generateSentence(random, 300))
		for range 3 {
			fmt.Fprintf(&b, "* **%s**: %s\n", words[random.IntN(len(words))], generateSentence(random, 60))
		}
		fmt.Fprintf(&b, "\n```yaml\nkind: Thing\nspec:\n\treplicas: %d\n```\n\nSee [the manual](https://docs.example.com/%d).\n\n", random.IntN(9), random.IntN(1000))
	}

	return b.String()
}
