package release_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const (
	digest       = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	goodMetadata = `{"kind":"cincinnati-metadata-v0","version":"1.2.3"}`
	goodImages   = `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"1.2.3"},"spec":{"tags":[` +
		`{"name":"etcd","from":{"kind":"DockerImage","name":"registry.example/etcd@` + digest + `"}},` +
		`{"name":"kube-proxy","from":{"kind":"DockerImage","name":"registry.example/proxy@` + digest + `"}}]}}`
)

// newPayloadFiles returns a valid payload, with files added, or removed if their content is empty.
func newPayloadFiles(files map[string]string) fstest.MapFS {
	all := map[string]string{
		"manifests/0000_00_cvo_00_namespace.yaml": configMapManifest("own"),
		release.FileMetadata:                      goodMetadata,
		release.FileImages:                        goodImages,
	}
	maps.Copy(all, files)
	fsys := fstest.MapFS{}
	for name, content := range all {
		if content != "" {
			fsys[name] = &fstest.MapFile{Data: []byte(content)}
		}
	}

	return fsys
}

func configMapManifest(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
}

// formatManifests returns the document and name of each manifest.
func formatManifests(manifests []release.Manifest) []string {
	var all []string
	for _, m := range manifests {
		all = append(all, fmt.Sprintf("%s#%d %s", m.File, m.Document, m.Object.GetName()))
	}
	return all
}

func loadPayload(t *testing.T, files map[string]string, options release.Options) *release.Payload {
	t.Helper()
	p, err := release.Load(newPayloadFiles(files), options)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLoadOrder(t *testing.T) {
	p := loadPayload(t, map[string]string{
		"manifests/0000_90_cvo_servicemonitor.yaml":                  configMapManifest("last-own"),
		"release-manifests/0000_10_b_00_many.yaml":                   "# nothing\n---\n" + configMapManifest("one") + "---\n---\n" + configMapManifest("two"),
		"release-manifests/0000_10_a_00.json":                        `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"three"}} {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"four"}}`,
		"release-manifests/0000_03_config-operator_01_proxy.crd.yml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: flow}}`,
		"release-manifests/0000_03_config-operator_02_empty.yaml":    "# nothing\n",
		"release-manifests/unnamed.yaml":                             configMapManifest("unnamed"),
		"release-manifests/0000_10_a_file":                           "not read",
		"release-manifests/0000_10_a_notes.txt":                      "not read",
		"release-manifests/deeper/0000_10_a_00.yaml":                 "not read",
		"release-manifests/0000_20_folder.yaml/0000_10_a_01.yaml":    "not read",
		"other/0000_10_a_00.yaml":                                    "not read",
	}, release.Options{})

	want := []string{
		"manifests/0000_00_cvo_00_namespace.yaml#1 own",
		"manifests/0000_90_cvo_servicemonitor.yaml#1 last-own",
		"release-manifests/0000_03_config-operator_01_proxy.crd.yml#1 flow",
		"release-manifests/0000_10_a_00.json#1 three",
		"release-manifests/0000_10_a_00.json#2 four",
		"release-manifests/0000_10_b_00_many.yaml#2 one",
		"release-manifests/0000_10_b_00_many.yaml#3 two",
		"release-manifests/unnamed.yaml#1 unnamed",
	}
	if diff := cmp.Diff(want, formatManifests(p.Manifests)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if p.Metadata.Version != "1.2.3" || len(p.Images.Tags) != 2 || len(p.Warnings) != 0 {
		t.Errorf("got metadata %+v, images %+v and warnings %v; want version 1.2.3, two images and no warning", p.Metadata, p.Images, p.Warnings)
	}
}

// The files of a real release are in the documented order.
func TestLoadOrderOfARelease(t *testing.T) {
	names := []string{
		"0000_03_authorization-openshift_01_rolebindingrestriction.crd.yaml",
		"0000_03_config-operator_01_proxy.crd.yaml",
		"0000_03_marketplace-operator_01_operatorhub.crd.yaml",
		"0000_03_marketplace-operator_02_operatorhub.cr.yaml",
		"0000_03_quota-openshift_01_clusterresourcequota.crd.yaml",
		"0000_90_service-ca-operator_02_prometheusrolebinding.yaml",
		"0000_90_service-ca-operator_03_servicemonitor.yaml",
		"0000_99_machine-api-operator_00_tombstones.yaml",
	}

	files := map[string]string{}
	want := []string{"manifests/0000_00_cvo_00_namespace.yaml#1 own"}
	for i, name := range names {
		files["release-manifests/"+name] = configMapManifest(fmt.Sprintf("n%d", i))
		want = append(want, fmt.Sprintf("release-manifests/%s#1 n%d", name, i))
	}

	if diff := cmp.Diff(want, formatManifests(loadPayload(t, files, release.Options{}).Manifests)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An object may be in two files, which belong to different profiles, but not twice in one file.
func TestLoadSameObject(t *testing.T) {
	same := map[string]string{"release-manifests/a.yaml": configMapManifest("x"), "release-manifests/b.yaml": configMapManifest("x")}
	if got := len(loadPayload(t, same, release.Options{}).Manifests); got != 3 {
		t.Errorf("got %d manifests, want 3", got)
	}

	other := map[string]string{"release-manifests/a.yaml": configMapManifest("x") + "  namespace: a\n---\n" + configMapManifest("x") + "  namespace: b\n"}
	if got := len(loadPayload(t, other, release.Options{}).Manifests); got != 3 {
		t.Errorf("got %d manifests, want 3", got)
	}
}

// All faults are returned at once.
func TestLoadFaults(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"nothing":     {"manifests/0000_00_cvo_00_namespace.yaml": "", release.FileMetadata: "", release.FileImages: ""},
		"no-own":      {"manifests/0000_00_cvo_00_namespace.yaml": ""},
		"no-metadata": {release.FileMetadata: ""},
		"no-images":   {release.FileImages: ""},
		"not-folders": {"manifests/0000_00_cvo_00_namespace.yaml": "", release.FileMetadata: "", release.FileImages: "", "manifests": "x", "release-manifests": "x"},
		"metadata": {
			release.FileMetadata: `{"kind":"other","version":"one","previous":["1.0.0","x"],"next":[""]}`,
			release.FileImages:   strings.Replace(goodImages, "1.2.3", "one", 1),
		},
		"metadata-json": {release.FileMetadata: `{"kind":`, release.FileImages: `[]`},
		"images": {release.FileImages: `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"9.9.9"},"spec":{"tags":[` +
			`{"name":"a","from":{"kind":"DockerImage","name":"registry.example/a:latest"}},{"name":"b","from":{"kind":"DockerImage","name":"registry.example/b@sha256:00"}}]}}`},
		"images-name": {release.FileImages: strings.Replace(goodImages, "1.2.3", "9.9.9", 1)},
		"manifests": {
			"manifests/0000_10_cvo_bad.yaml":              "a: b: c\n",
			"release-manifests/0000_10_a_00.yaml":         configMapManifest("good") + "---\nkind: ConfigMap\n---\n" + configMapManifest("good") + "---\na: [\n---\n- list\n---\ntext\n",
			"release-manifests/0000_10_a_01.json":         `{"apiVersion":"v1","kind":"ConfigMap"`,
			"release-manifests/0000_10_a_02_twice.yaml":   "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: z}\n---\napiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: x, namespace: z}\n",
			"release-manifests/0000_10_a_03_types.yaml":   "apiVersion: 1\nkind: true\nmetadata: text\n---\n" + configMapManifest("x") + "  namespace: 7\n---\n" + configMapManifest("z") + "  annotations: {a: 1}\n",
			"release-manifests/0000_10_a_04_deletes.yaml": configMapManifest("x") + "  annotations: {release.openshift.io/delete: \"false\"}\n",
			"release-manifests/0000_10_a_05_list.yaml":    "apiVersion: v1\nkind: List\nitems: []\n",
			"release-manifests/0000_10_a_06_null.yaml":    configMapManifest("x") + "  namespace:\n  annotations:\n",
		},
		"limits": {
			"release-manifests/0000_10_a_00_deep.yaml":    configMapManifest("x") + "data: " + strings.Repeat("[", 250) + strings.Repeat("]", 250) + "\n",
			"release-manifests/0000_10_a_01_deep.json":    `{"data":` + strings.Repeat("[", 250) + strings.Repeat("]", 250) + "}",
			"release-manifests/0000_10_a_02_large.yaml":   strings.Repeat("#", 8<<20+1),
			"release-manifests/0000_10_a_03_many.yaml":    strings.Repeat("---\n\n", 20_002),
			"release-manifests/0000_10_a_04_aliases.yaml": configMapManifest("x") + newAliasBomb(9),
			"release-manifests/0000_10_a_05_self.yaml":    configMapManifest("x") + "data: &a [*a]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := release.Load(newPayloadFiles(files), release.Options{})
			var faults *release.Error
			if !errors.As(err, &faults) {
				t.Fatalf("got error %v, want a *release.Error", err)
			}
			golden.Check(t, "faults/"+name+".txt", []byte(err.Error()+"\n"))
		})
	}
}

func TestLoadLimitsFaults(t *testing.T) {
	_, err := release.Load(newPayloadFiles(map[string]string{
		"release-manifests/a.yaml": strings.Repeat("text\n---\n", 600), "release-manifests/b.yaml": strings.Repeat("text\n---\n", 600), "release-manifests/c.yaml": "text",
	}), release.Options{})
	var faults *release.Error
	if !errors.As(err, &faults) || len(faults.Faults) != 1000 {
		t.Fatalf("got error %v, want 1000 faults", err)
	}
	if last := faults.Faults[999]; last.Document != 400 || !strings.HasSuffix(last.Error(), "only the first 1000 faults are reported") {
		t.Errorf("got last fault %v, want that only the first 1000 are reported", last)
	}
}

// newAliasBomb returns YAML in which each level contains ten aliases of the level before.
func newAliasBomb(levels int) string {
	var b strings.Builder
	b.WriteString("l0: &l0 text\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "l%d: &l%d [%s*l%d]\n", i, i, strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 9), i-1)
	}
	return b.String()
}

func TestLoadFaultNamesItsDocument(t *testing.T) {
	_, err := release.Load(newPayloadFiles(map[string]string{"release-manifests/a.yaml": configMapManifest("x") + "---\nkind: Pod\n"}), release.Options{})
	var fault release.Fault
	if !errors.As(err, &fault) || fault.File != "release-manifests/a.yaml" || fault.Document != 2 {
		t.Errorf("got fault %+v of %v, want one of document 2 of release-manifests/a.yaml", fault, err)
	}

	_, err = release.Load(newPayloadFiles(map[string]string{release.FileMetadata: ""}), release.Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want fs.ErrNotExist", err)
	}
}

func TestLoadDoesNotFollowLinks(t *testing.T) {
	fsys := newPayloadFiles(map[string]string{"outside.yaml": configMapManifest("outside"), "outside/x.yaml": configMapManifest("outside")})
	fsys["release-manifests/0000_10_a_00.yaml"] = &fstest.MapFile{Data: []byte("../outside.yaml"), Mode: fs.ModeSymlink}
	if _, err := release.Load(fsys, release.Options{}); err == nil || !strings.Contains(err.Error(), "no symbolic link") {
		t.Errorf("a file: got error %v, want that it is a symbolic link", err)
	}

	fsys = newPayloadFiles(map[string]string{"manifests/0000_00_cvo_00_namespace.yaml": "", "outside/x.yaml": configMapManifest("outside")})
	fsys["manifests"] = &fstest.MapFile{Data: []byte("outside"), Mode: fs.ModeSymlink}
	if _, err := release.Load(fsys, release.Options{}); err == nil || !strings.Contains(err.Error(), "no symbolic link") {
		t.Errorf("a folder: got error %v, want that it is a symbolic link", err)
	}
}

func TestLoadTotalLimits(t *testing.T) {
	large, many := newPayloadFiles(nil), newPayloadFiles(nil)
	comment := bytes.Repeat([]byte("#"), 8<<20-1000)
	for i := range 17 {
		large[fmt.Sprintf("release-manifests/%02d.yaml", i)] = &fstest.MapFile{Data: comment}
	}

	for i := range 10_001 {
		many[fmt.Sprintf("release-manifests/%05d.yaml", i)] = &fstest.MapFile{}
	}

	for want, fsys := range map[string]fs.FS{
		"release-manifests/16.yaml: the payload is larger than the 134217728 bytes that it may have": large,
		"release-manifests: holds 10003 files, more than the 10000 that it may have":                 many,
	} {
		if _, err := release.Load(fsys, release.Options{}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestLoadManifestLimit(t *testing.T) {
	var objects strings.Builder
	for i := range 15_000 {
		fmt.Fprintf(&objects, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n%d"}}`, i)
	}

	files := map[string]string{"release-manifests/a.json": objects.String(), "release-manifests/b.json": objects.String(), "release-manifests/c.json": "not read"}
	const want = "release-manifests/b.json: the payload has more than the 20000 manifests that it may have"
	if _, err := release.Load(newPayloadFiles(files), release.Options{}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A small template can expand to a large text.
func TestLoadTemplateLimit(t *testing.T) {
	files := map[string]string{
		"manifests/a.yaml": configMapManifest("x") + "# " + strings.Repeat("{{ if .Images }}{{ .Images.etcd }}{{ end }}", 100),
		release.FileImages: strings.Replace(goodImages, "registry.example/etcd", strings.Repeat("a", 100_000), 1),
	}
	const want = "manifests/a.yaml: makes more than the 8388608 bytes that a template may make"
	if _, err := release.Load(newPayloadFiles(files), release.Options{StrictTemplates: true}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Manifests in FolderOwn are templates; all others are not.
func TestLoadTemplates(t *testing.T) {
	options := release.Options{ReleaseImage: "registry.example/release@" + digest}
	for name, tc := range map[string]struct{ template, want string }{
		"text":              {"a", "a"},
		"release image":     {"{{.ReleaseImage}}", options.ReleaseImage},
		"of the root":       {"{{ $.ReleaseImage }}", options.ReleaseImage},
		"default profile":   {"{{ .ClusterProfile }}", release.DefaultProfile},
		"image":             {"{{ .Images.etcd }}", "registry.example/etcd@" + digest},
		"image with a dash": {`{{ index .Images "kube-proxy" }}`, "registry.example/proxy@" + digest},
		"piped":             {`{{ "etcd" | index .Images }}`, "registry.example/etcd@" + digest},
		"quoted braces":     {"{{ \"{{ $labels.name }}\" }}", "{{ $labels.name }}"},
		"raw braces":        {"{{`{{ $labels.name }}`}}", "{{ $labels.name }}"},
		"comment":           {"a{{/* b */}}c", "ac"},
		"if":                {`{{ if eq .ClusterProfile "x" "self-managed-high-availability" }}a{{ else }}b{{ end }}`, "a"},
		"else if":           {`{{ if ne .ClusterProfile .ClusterProfile }}a{{ else if not .Images }}b{{ else }}c{{ end }}`, "c"},
		"and, or":           {`{{ if and true (or false "" .Images) }}a{{ end }}`, "a"},
		"and with a value":  {`{{ and "a" "b" }}{{ and "" "b" }}{{ or "" "c" }}{{ or "d" "" }}`, "bcd"},
		"blanks":            {"a {{- .Images.etcd | eq \"x\" -}} b", "afalseb"},
	} {
		t.Run(name, func(t *testing.T) {
			text := configMapManifest("x") + "data:\n  text: |-\n    " + tc.template + "\n"
			p := loadPayload(t, map[string]string{"manifests/a.yaml": text, "release-manifests/a.yaml": text}, options)
			if len(p.Manifests) != 3 {
				t.Fatalf("got manifests %v and warnings %v, want 3 manifests", formatManifests(p.Manifests), p.Warnings)
			}
			for i, want := range []string{tc.want, tc.template} {
				if got := p.Manifests[i+1].Object.Object["data"].(map[string]any)["text"]; got != want {
					t.Errorf("%s: got %q, want %q", p.Manifests[i+1].File, got, want)
				}
			}
		})
	}
}

// A template that this program cannot execute may belong to a newer release.
func TestLoadUnknownTemplates(t *testing.T) {
	var warnings strings.Builder
	for _, template := range []string{
		"{{ .Unknown }}", "{{ .Images }}", "{{ .Images.etcd.deeper }}", "{{ .Images.unknown }}", `{{ index .Images "unknown" }}`, "{{ index .Images }}", `{{ index "a" "b" }}`,
		"{{ unknown }}", `{{ printf "%9999999999d" 1 }}`, "{{ range .Images }}{{ end }}", "{{ range 1000000000000 }}{{ end }}", "{{ with .Images }}{{ end }}", "{{ range .Images }}" + strings.Repeat("long ", 100) + "{{ end }}", "{{ $a := 1 }}", "{{ $a }}",
		`{{ define "a" }}{{ end }}{{ template "a" }}`, "{{ . }}", "{{ nil }}", `{{ "a" "b" }}`, "{{ .ReleaseImage 1 }}", "{{ eq .Images .Images }}", `{{ eq "a" }}`,
		"{{ not }}", "{{ and }}", "{{ (.Images).unknown }}", "{{ if .Unknown }}{{ end }}", "{{ if true }}", "{{", "{{ }}", strings.Repeat("#", 256<<10) + "{{ true }}",
	} {
		files := map[string]string{"manifests/a.yaml": configMapManifest("x") + "# " + template + "\n"}
		p := loadPayload(t, files, release.Options{})
		if len(p.Manifests) != 1 || len(p.Warnings) != 1 {
			t.Errorf("%q: got manifests %v and warnings %v, want one of each", template, formatManifests(p.Manifests), p.Warnings)
			continue
		}

		fmt.Fprintf(&warnings, "%.60s\n  %s\n", template, p.Warnings[0])
		if _, err := release.Load(newPayloadFiles(files), release.Options{StrictTemplates: true}); err == nil {
			t.Errorf("%q: got no fault, want one", template)
		}
	}

	golden.Check(t, "templates.txt", []byte(warnings.String()))
}

func TestHash(t *testing.T) {
	hash := func(files map[string]string) string {
		return release.Hash(loadPayload(t, files, release.Options{}).Manifests)
	}
	a := map[string]string{"release-manifests/a.yaml": configMapManifest("x")}
	if hash(a) != hash(map[string]string{"release-manifests/other.yaml": "# note\n---\n" + configMapManifest("x")}) {
		t.Error("got a different hash of the same manifests, want the same")
	}
	if hash(a) == hash(map[string]string{"release-manifests/a.yaml": configMapManifest("z")}) || hash(a) == hash(nil) {
		t.Error("got the same hash of different manifests, want another")
	}
	// The FNV-1 hash of empty data is its offset basis, cbf29ce484222325.
	if got := release.Hash(nil); got != "y_Kc5IQiIyU=" {
		t.Errorf("got hash %s of no manifests, want y_Kc5IQiIyU=", got)
	}
}
