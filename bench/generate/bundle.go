package generate

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// object is a JSON object. Its keys are written in their order, as the field's tools do.
type object = map[string]any

// properties of a bundle.
func (p *pkg) properties(i int) []any {
	group := p.name + ".example.com"
	var result []any
	for _, kind := range p.kinds {
		result = append(result, property("olm.gvk", object{"group": group, "kind": kind, "version": "v1"}))
		result = append(result, property("olm.gvk", object{"group": group, "kind": kind, "version": "v1alpha1"}))
	}

	result = append(result, property("olm.gvk.required", object{"group": "monitoring.example.com", "kind": "ServiceMonitor", "version": "v1"}))
	result = append(result, property("olm.package", object{"packageName": p.name, "version": p.versions[i]}))
	return append(result, property("olm.csv.metadata", p.metadata(i)))
}

func property(name string, value any) any { return object{"type": name, "value": value} }

// metadata is what a catalog keeps of a ClusterServiceVersion.
func (p *pkg) metadata(i int) any {
	var owned []any
	for _, kind := range p.kinds {
		var resources []any
		for _, name := range []string{"Deployment", "Service", "Secret"} {
			resources = append(resources, object{"kind": name, "name": "", "version": "v1"})
		}

		var specs []any
		for j, path := range []string{"replicas", "storage.size"} {
			specs = append(specs, object{
				"description": kind + ": " + p.description[100*j:100*j+90], "displayName": title(path), "path": path,
				"x-descriptors": []any{"urn:alm:descriptor:com.tectonic.ui:advanced", "urn:alm:descriptor:com.tectonic.ui:text"},
			})
		}

		owned = append(owned, object{
			"name": strings.ToLower(kind) + "s." + p.name + ".example.com", "version": "v1", "kind": kind,
			"displayName": kind, "description": kind + " " + p.description[:100], "resources": resources, "specDescriptors": specs,
		})
	}

	return object{
		"annotations": object{
			"alm-examples": p.examples, "capabilities": "Deep Insights", "categories": "Database, Monitoring",
			"certified": "false", "containerImage": p.image("operator", i), "createdAt": fmt.Sprintf("2026-%02d-%02dT08:00:00Z", 1+i%12, 1+i%28),
			"repository": "https://git.example.com/" + p.name, "support": "The makers of " + p.name,
		},
		"apiServiceDefinitions": object{},
		"crdDescriptions":       object{"owned": owned},
		"description":           p.description + "\n\n## What is new in " + p.versions[i] + "\n\n" + sentence(p.random, 2400) + ".\n",
		"displayName":           title(p.name),
		"installModes": []any{
			object{"supported": true, "type": "OwnNamespace"}, object{"supported": true, "type": "SingleNamespace"},
			object{"supported": false, "type": "MultiNamespace"}, object{"supported": true, "type": "AllNamespaces"},
		},
		"keywords":    []any{"database", "storage", p.name},
		"links":       []any{object{"name": "Documentation", "url": "https://docs.example.com/" + p.name}},
		"maintainers": []any{object{"name": "The makers", "email": "makers@" + p.name + ".example.com"}},
		"maturity":    "stable",
		"provider":    object{"name": "The makers of " + p.name, "url": "https://example.com"},
	}
}

// almExamples is the annotation with an example of each kind: JSON within a string.
func (p *pkg) almExamples() string {
	var examples []any
	for _, kind := range p.kinds {
		examples = append(examples, object{
			"apiVersion": p.name + ".example.com/v1", "kind": kind, "metadata": object{"name": "example", "namespace": "default"},
			"spec": object{
				"replicas": 3, "image": p.image("server", 0), "storage": object{"size": "10Gi", "class": "fast"},
				"resources": object{"limits": object{"cpu": "500m", "memory": "1Gi"}, "requests": object{"cpu": "100m", "memory": "256Mi"}},
				"users":     []any{object{"name": "admin", "secret": "admin-password"}, object{"name": "reader", "secret": "reader-password"}},
				"note":      sentence(p.random, 600),
			},
		})
	}

	text, err := json.MarshalIndent(examples, "", "  ")
	if err != nil {
		panic(err) // the values above can be written
	}

	return string(text)
}

func (p *pkg) image(name string, i int) string {
	return fmt.Sprintf("registry.example.com/%s/%s@sha256:%064x", p.name, name, uint64(p.number)<<32|uint64(i))
}

func (p *pkg) relatedImages() []any {
	var images []any
	for _, name := range []string{"operator", "proxy", "server", "exporter", "backup"} {
		digest := fmt.Sprintf("%016x%016x%016x%016x", p.random.Uint64(), p.random.Uint64(), p.random.Uint64(), p.random.Uint64())
		images = append(images, object{"image": "registry.example.com/" + p.name + "/" + name + "@sha256:" + digest, "name": name})
	}
	return images
}

// icon is an SVG drawing, or for every other package a PNG: bytes that do not compress.
// As base64 it has 10 to 40 kB.
func icon(number int, random *rand.Rand) any {
	size := 7500 + random.IntN(22_500)
	if number%2 == 1 {
		data := make([]byte, size)
		copy(data, "\x89PNG\r\n\x1a\n")
		for i := 8; i < size; i++ {
			data[i] = byte(random.Uint32())
		}
		return object{"base64data": base64.StdEncoding.EncodeToString(data), "mediatype": "image/png"}
	}

	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">`)
	for b.Len() < size {
		fmt.Fprintf(&b, `<path fill="#%06x" d="M%d.%d %d.%dL%d %dz"/>`, random.IntN(1<<24), random.IntN(100), random.IntN(10), random.IntN(100), random.IntN(10), random.IntN(100), random.IntN(100))
	}

	b.WriteString("</svg>")
	return object{"base64data": base64.StdEncoding.EncodeToString([]byte(b.String())), "mediatype": "image/svg+xml"}
}

var words = strings.Fields(`the operator manages a cluster of "databases" and takes care of backups, updates and
	failover; its custom resource describes what is wanted: replicas, storage & memory, version <1.2.3>, and credentials
	metrics alerts dashboards certificates rotation encryption network policies quotas limits regions zones disks volumes
	snapshots restores clones tenants users roles permissions audit logs traces queues topics streams schemas tables`)

func title(word string) string {
	word = strings.Trim(word, `"<>&,;:.`)
	if word == "" {
		return "X"
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

func sentence(random *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[random.IntN(len(words))])
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// markdown is a text of headings, paragraphs, lists and code, of about n bytes.
func markdown(random *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "## %s\n\n%s.\n\n", title(sentence(random, 12)), sentence(random, 300))
		for range 3 {
			fmt.Fprintf(&b, "* **%s**: %s\n", words[random.IntN(len(words))], sentence(random, 60))
		}
		fmt.Fprintf(&b, "\n```yaml\nkind: Thing\nspec:\n\treplicas: %d\n```\n\nSee [the manual](https://docs.example.com/%d).\n\n", random.IntN(9), random.IntN(1000))
	}

	return b.String()
}
