package authoring

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle/validate"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const csv = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: foo.v1.0.0}
spec: {version: 1.0.0}
`

const packageManifest = `
packageName: foo
channels:
- {name: beta, currentCSV: foo.v1.0.0}
- {name: alpha, currentCSV: foo.v1.0.0}
defaultChannel: beta
`

// writeFolder writes files into a temporary folder and returns its path.
func writeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

// readFolder returns the content of the files of a folder by name.
func readFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return files
}

// progressRecorder records the reported steps.
type progressRecorder struct {
	report.Quiet
	done []string
}

func (p *progressRecorder) Done(message string) { p.done = append(p.done, message) }

func TestGenerateBundle(t *testing.T) {
	dir := writeFolder(t, map[string]string{"manifests/csv.yaml": csv})
	generated, err := (&GenerateBundle{
		Directory: filepath.Join(dir, "manifests"), WorkDir: dir, Package: "foo", Channels: "stable,beta", DefaultChannel: "stable", Overwrite: true,
	}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if generated.Metadata != filepath.Join(dir, "metadata") || generated.Dockerfile != filepath.Join(dir, "bundle.Dockerfile") {
		t.Errorf("got %+v", generated)
	}

	files := readFolder(t, dir)
	golden.Check(t, "annotations.yaml", []byte(files["metadata/annotations.yaml"]))
	golden.Check(t, "bundle.Dockerfile", []byte(files["bundle.Dockerfile"]))
	if len(files) != 3 {
		t.Errorf("got files %v", files)
	}

	for _, name := range []string{"metadata/annotations.yaml", "bundle.Dockerfile"} {
		// The umask can only remove permissions.
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode()&^0o644 != 0 || info.Mode()&0o600 != 0o600 {
			t.Errorf("%s: got mode %v and error %v, want at most 0644", name, info.Mode(), err)
		}
	}
}

func TestGenerateBundleOutputDir(t *testing.T) {
	dir := writeFolder(t, map[string]string{"chart/Chart.yaml": "name: foo", "chart/templates/a.yaml": "{{ if }}"})
	for _, out := range []string{"out", "chart/out"} {
		_, err := (&GenerateBundle{
			Directory: filepath.Join(dir, "chart"), OutputDir: filepath.Join(dir, out), WorkDir: filepath.Join(dir, "chart"),
			Package: "foo", Channels: "stable", BaseImage: "busybox", Overwrite: true,
		}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		files := readFolder(t, filepath.Join(dir, out))
		if files["manifests/Chart.yaml"] != "name: foo" || files["manifests/templates/a.yaml"] != "{{ if }}" ||
			!strings.Contains(files["metadata/annotations.yaml"], "mediatype.v1: helm") {
			t.Errorf("%s: got files %v", out, files)
		}
		if len(files) != 3+strings.Count(out, "/") { // the chart contains the Dockerfile of the first run
			t.Errorf("%s: got %d files: %v", out, len(files), files)
		}
	}

	golden.Check(t, "elsewhere.Dockerfile", []byte(readFolder(t, dir)["chart/bundle.Dockerfile"]))
}

// The manifests are not copied onto themselves.
func TestGenerateBundleInPlace(t *testing.T) {
	dir := writeFolder(t, map[string]string{"manifests/csv.yaml": csv})
	_, err := (&GenerateBundle{Directory: filepath.Join(dir, "manifests"), OutputDir: dir, WorkDir: dir, Package: "foo", Channels: "a"}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if files := readFolder(t, dir); files["manifests/csv.yaml"] != csv || len(files) != 3 {
		t.Errorf("got files %v", files)
	}
}

func TestGenerateBundleInfers(t *testing.T) {
	dir := writeFolder(t, map[string]string{"foo.package.yaml": packageManifest, "1.0.0/csv.yaml": csv})
	p := &progressRecorder{}
	generated, err := (&GenerateBundle{Progress: p, Directory: filepath.Join(dir, "1.0.0"), WorkDir: dir, OutputDir: filepath.Join(dir, "1.0.0", "out")}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := generated.Description; d.Package != "foo" || d.Channels != "alpha,beta" || d.DefaultChannel != "beta" {
		t.Errorf("got description %+v", d)
	}

	want := []string{"Inferred channels: alpha,beta", "Inferred package name: foo", "Inferred default channel: beta"}
	if diff := cmp.Diff(want, p.done[:3]); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}

	generated, err = (&GenerateBundle{Directory: filepath.Join(dir, "1.0.0"), WorkDir: dir, Channels: "alpha"}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := generated.Description; d.Package != "foo" || d.Channels != "alpha" || d.DefaultChannel != "" {
		t.Errorf("got description %+v, want no default channel", d)
	}

	// The folder metadata, which was created above, is not a version of the package.
	const prefix = "please manually input channels and packageName, error interpreting bundle from directory "
	_, err = (&GenerateBundle{Directory: filepath.Join(dir, "1.0.0"), WorkDir: dir}).Run(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), prefix+filepath.Join(dir, "1.0.0")+", metadata: holds 0 ClusterServiceVersions") {
		t.Errorf("got error %v", err)
	}
}

func TestGenerateBundleCompares(t *testing.T) {
	dir := writeFolder(t, map[string]string{"manifests/csv.yaml": csv, "bundle.Dockerfile": "mine"})
	generate := func(pkg, defaultChannel string, overwrite bool) error {
		_, err := (&GenerateBundle{Directory: filepath.Join(dir, "manifests"), WorkDir: dir, Package: pkg, Channels: "a", DefaultChannel: defaultChannel, Overwrite: overwrite}).Run(t.Context())
		return err
	}
	if err := generate("foo", "", false); err != nil {
		t.Fatal(err)
	}
	if err := generate("foo", "", false); err != nil {
		t.Errorf("same options: got error %v, want none", err)
	}

	const other = `Expect field "operators.operatorframework.io.bundle.package.v1" to have value "bar" instead of "foo"`
	if err := generate("bar", "", false); err == nil || err.Error() != other {
		t.Errorf("another package: got error %v", err)
	}
	if err := generate("bar", "a", false); err == nil || err.Error() != "["+other+", Missing field: operators.operatorframework.io.bundle.channel.default.v1]" {
		t.Errorf("another package and a default channel: got error %v", err)
	}
	if text := readFolder(t, dir)["bundle.Dockerfile"]; text != "mine" {
		t.Errorf("got Dockerfile %q, want the existing one", text)
	}
	if err := generate("bar", "a", true); err != nil {
		t.Fatal(err)
	}

	files := readFolder(t, dir)
	if !strings.Contains(files["metadata/annotations.yaml"], "package.v1: bar") || !strings.HasPrefix(files["bundle.Dockerfile"], "FROM scratch\n") || len(files) != 3 {
		t.Errorf("got files %v, want overwritten ones", files)
	}
}

func TestGenerateBundleInvalid(t *testing.T) {
	dir := writeFolder(t, map[string]string{"empty/sub/a": "", "m/csv.yaml": csv, "link/csv.yaml": csv, "broken/a.yaml": csv, "broken/metadata/annotations.yaml": "a: ["})
	if err := os.Symlink("csv.yaml", filepath.Join(dir, "link", "b.yaml")); err != nil {
		t.Fatal(err)
	}

	at := func(name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		generate GenerateBundle
		want     string
	}{
		"no folder":     {GenerateBundle{Directory: at("none")}, "directory " + at("none") + ": .: file does not exist"},
		"no files":      {GenerateBundle{Directory: at("empty")}, "The directory " + at("empty") + " contains no yaml files"},
		"no manifest":   {GenerateBundle{Directory: at("m"), Package: "foo"}, "please manually input channels and packageName, error interpreting bundle from directory " + at("m") + ", no package manifest"},
		"link":          {GenerateBundle{Directory: at("link"), Package: "foo", Channels: "a"}, "unable to read file " + at("link/b.yaml") + ": must be a regular file"},
		"line break":    {GenerateBundle{Directory: at("m"), Package: "foo\nb", Channels: "a"}, "operators.operatorframework.io.bundle.package.v1: \"foo\\nb\" contains a control character"},
		"base":          {GenerateBundle{Directory: at("m"), Package: "foo", Channels: "a", BaseImage: "a\nRUN b", OutputDir: at("out")}, `"a\nRUN b" contains a line break`},
		"broken":        {GenerateBundle{Directory: at("broken"), Package: "foo", Channels: "a", OutputDir: at("broken")}, at("broken/metadata/annotations.yaml") + ": yaml: "},
		"out is a file": {GenerateBundle{Directory: at("m"), Package: "foo", Channels: "a", OutputDir: at("m/csv.yaml")}, "stat " + at("m/csv.yaml/manifests") + ": not a directory"},
	} {
		c.generate.WorkDir = dir
		if _, err := c.generate.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&GenerateBundle{Directory: at("m")}).Run(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled context: got error %v", err)
	}

	for name := range readFolder(t, dir) {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("got file %s, want none", name)
		}
	}
}

// The generated files of real bundles equal those of their authors.
func TestGenerateRealBundles(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(checkout.SharedData(t, "bundles"), "couchdb-operator", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("got %d bundles and error %v", len(dirs), err)
	}

	for _, dir := range dirs {
		files := readFolder(t, dir)
		work := t.TempDir()
		if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}

		annotation := func(key string) string {
			_, value, _ := strings.Cut(files["metadata/annotations.yaml"], "operators.operatorframework.io.bundle."+key+": ")
			value, _, _ = strings.Cut(value, "\n")
			return strings.TrimSpace(value)
		}
		_, err := (&GenerateBundle{
			Directory: filepath.Join(work, "manifests"), WorkDir: work, Overwrite: true,
			Package: annotation("package.v1"), Channels: annotation("channels.v1"), DefaultChannel: annotation("channel.default.v1"),
		}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		generated := readFolder(t, work)
		for _, name := range []string{"metadata/annotations.yaml", "bundle.Dockerfile"} {
			// The authors of two bundles edited the files by hand.
			author := strings.NewReplacer(" \n", "\n", "COPY /", "COPY ").Replace(strings.ReplaceAll(files[name], "  \n", "\n"))
			if diff := cmp.Diff(strings.TrimSpace(author), strings.TrimSpace(generated[name])); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", filepath.Base(dir), name, diff)
			}
		}
	}
}

func TestGenerateDockerfile(t *testing.T) {
	labels := []string{"b=2", "a=1", "a=x=y", `q=say "hi" for $1`}
	one := []string{"only="}
	for name, g := range map[string]GenerateDockerfile{
		"catalog.Dockerfile":  {BaseImage: "quay.io/operator-framework/opm:latest", BuilderImage: "quay.io/operator-framework/opm:latest"},
		"labelled.Dockerfile": {BaseImage: "base", BuilderImage: "builder", Labels: labels},
		"scratch.Dockerfile":  {BaseImage: "scratch", BuilderImage: "builder", Labels: one},
	} {
		dir := writeFolder(t, map[string]string{"catalog/a.yaml": ""})
		g.Dir = filepath.Join(dir, "catalog") + "/../catalog/"
		generated, err := g.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if generated != filepath.Join(dir, "catalog.Dockerfile") {
			t.Errorf("%s: got %s", name, generated)
		}

		golden.Check(t, name, []byte(readFolder(t, dir)["catalog.Dockerfile"]))
	}
}

func TestGenerateDockerfileInWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	generated, err := (&GenerateDockerfile{Dir: ".", BaseImage: "a", BuilderImage: "b"}).Run(t.Context())
	if err != nil || generated != "..Dockerfile" {
		t.Errorf("got %q and error %v", generated, err)
	}
	if text := readFolder(t, ".")["..Dockerfile"]; !strings.Contains(text, "\nADD . /configs\n") {
		t.Errorf("got text %q", text)
	}
}

func TestGenerateDockerfileInvalid(t *testing.T) {
	dir := writeFolder(t, map[string]string{"catalog/a": "", "there/a": "", "there.Dockerfile": "mine", "file": ""})
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		dir, base, builder string
		labels             []string
		want               string
	}{
		"builder before all": {at("none"), "", "scratch", []string{"a"}, `invalid builder image: "scratch"`},
		"label before file":  {at("there"), "", "b", []string{"a=b", "c"}, `invalid label "c"`},
		"exists":             {at("there"), "", "b", nil, `path "` + at("there.Dockerfile") + `": file already exists`},
		"no folder":          {at("none"), "", "b", nil, "stat " + at("none") + ": no such file or directory"},
		"a file":             {at("file"), "", "b", nil, `provided root path "` + at("file") + `" is not a directory`},
		"no base":            {at("catalog"), "", "b", nil, "base image is unset"},
		"two lines":          {at("catalog"), "a", "b\nRUN x", nil, `"b\nRUN x" holds a control character: a Dockerfile cannot take it`},
		"label of two lines": {at("catalog"), "a", "b", []string{"a=b\nRUN x"}, `"b\nRUN x" holds a control character: a Dockerfile cannot take it`},
	} {
		_, err := (&GenerateDockerfile{Dir: c.dir, BaseImage: c.base, BuilderImage: c.builder, Labels: c.labels}).Run(t.Context())
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}

	if _, err := os.Stat(at("catalog.Dockerfile")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got a Dockerfile after an error, want none: %v", err)
	}
	if _, err := renderCatalogDockerfile("", "a", "b", nil); err == nil || err.Error() != "index directory is unset" {
		t.Errorf("no folder: got error %v", err)
	}
}

const svg = `<svg xmlns="http://www.w3.org/2000/svg"/>`

func TestInitPackage(t *testing.T) {
	dir := writeFolder(t, map[string]string{"icon": svg, "text.md": "# Foo\n", "empty": ""})
	for _, c := range []struct {
		name string
		init InitPackage
		want *fbc.Package
	}{
		{"name only", InitPackage{Name: "Foo/bar"}, &fbc.Package{Schema: "olm.package", Name: "Foo/bar"}},
		{"all", InitPackage{Name: "foo", DefaultChannel: "a", IconFile: filepath.Join(dir, "icon"), DescriptionFile: filepath.Join(dir, "text.md")},
			&fbc.Package{Schema: "olm.package", Name: "foo", DefaultChannel: "a", Description: "# Foo\n", Icon: &fbc.Icon{Data: []byte(svg), MediaType: "image/svg+xml"}}},
		{"empty description", InitPackage{Name: "foo", DescriptionFile: filepath.Join(dir, "empty")}, &fbc.Package{Schema: "olm.package", Name: "foo"}},
	} {
		got, err := c.init.Run(t.Context())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: package (-want +got):\n%s", c.name, diff)
		}
	}

	for want, init := range map[string]InitPackage{
		"open icon file: open none: no such file or directory":        {IconFile: "none"},
		"open description file: open none: no such file or directory": {DescriptionFile: "none"},
		"detect icon mediatype: Empty buffer":                         {IconFile: filepath.Join(dir, "empty")},
		"read icon: read " + dir + ": is a directory":                 {IconFile: dir},
		"read description: read " + dir + ": is a directory":          {DescriptionFile: dir},
	} {
		if _, err := init.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestReadIcon(t *testing.T) {
	for text, want := range map[string]string{
		"\x89PNG\x0D\x0A\x1A\x0A":    "image/png",
		"GIF89a":                     "image/gif",
		"\xFF\xD8\xFF":               "image/jpeg",
		"RIFF\x00\x00\x00\x00WEBPVP": "image/webp",
		svg:                          "image/svg+xml",
		"\ufeff<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n<!-- a < b -->\n<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \"x\" [<!ENTITY a \"b\">]>\n<s:svg xmlns:s=\"x\">&a;": "image/svg+xml",
	} {
		icon, err := readPackageIcon(strings.NewReader(text))
		if err != nil || icon.MediaType != want || string(icon.Data) != text {
			t.Errorf("%q: got %+v, error %v; want %s", text, icon, err, want)
		}
	}

	for text, want := range map[string]string{
		"text":                                  `detected invalid type "text/plain; charset=utf-8": not an image`,
		"<html><svg/></html>":                   `detected invalid type "text/html; charset=utf-8": not an image`,
		"<?xml version='1.0'?><a><svg/>":        `detected invalid type "text/xml; charset=utf-8": not an image`,
		"see <svg/>":                            `detected invalid type "text/plain; charset=utf-8": not an image`,
		"%PDF-":                                 `detected invalid type "application/pdf": not an image`,
		strings.Repeat("a", maxInitFileBytes+1): "read icon: it is larger than the 4194304 bytes that it may have",
	} {
		if _, err := readPackageIcon(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}

	if _, err := readPackageIcon(iotest.ErrReader(errors.New("gone"))); err == nil || err.Error() != "read icon: gone" {
		t.Errorf("got error %v", err)
	}
	if _, err := readPackageDescription(iotest.ErrReader(errors.New("gone"))); err == nil || err.Error() != "read description: gone" {
		t.Errorf("got error %v", err)
	}
	if _, err := readPackageDescription(strings.NewReader("\xff")); err == nil || err.Error() != "read description: it is not UTF-8 text" {
		t.Errorf("got error %v", err)
	}
}

func FuzzIcon(f *testing.F) {
	f.Add([]byte(svg))
	f.Add([]byte("<!DOCTYPE [<!ENTITY"))
	f.Add([]byte("GIF89a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		icon, err := readPackageIcon(bytes.NewReader(data))
		if err == nil && !strings.HasPrefix(icon.MediaType, "image/") {
			t.Errorf("got media type %q", icon.MediaType)
		}
	})
}

func TestValidateBundle(t *testing.T) {
	fsys := fstest.MapFS{
		"manifests/csv.yaml": {Data: []byte(csv)},
		"metadata/annotations.yaml": {Data: []byte("annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n" +
			"  operators.operatorframework.io.bundle.manifests.v1: manifests/\n  operators.operatorframework.io.bundle.metadata.v1: metadata/\n" +
			"  operators.operatorframework.io.bundle.package.v1: foo\n  operators.operatorframework.io.bundle.channels.v1: stable\n")},
	}

	fsys["manifests/csv.yaml"].Data = []byte(strings.Replace(csv, "name: foo.v1.0.0", "name: foo.v1.0.0, annotations: {categories: Mine}", 1))
	files := writeFolder(t, map[string]string{"categories.json": `{"categories": ["Mine"]}`})
	run := func(categories string) string {
		findings, err := (&ValidateBundle{Bundle: fsys, Optional: []string{"standardcategories"}, CategoriesFile: categories}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return findings.Err().Error()
	}

	const always = "Bundle validation errors: Error: Value : (foo.v1.0.0) install modes not found," +
		"Error: Field Spec.InstallStrategy, Value struct: required field missing,Error: Field Spec.DisplayName, Value field: required field missing"
	for categories, want := range map[string]string{
		"":                                      always + `,Error: Value : (foo.v1.0.0) csv.Metadata.Annotations["categories"] value "Mine" is not in the set of standard categories`,
		filepath.Join(files, "categories.json"): always,
		"none":                                  always + ",Error: Value : (foo.v1.0.0) could not extract custom categories from categories none: open none: no such file or directory",
	} {
		if got := run(categories); got != want {
			t.Errorf("categories %q:\n%s\nwant\n%s", categories, got, want)
		}
	}

	findings, err := (&ValidateBundle{Bundle: fstest.MapFS{}}).Run(t.Context())
	var invalid *validate.InvalidError
	if err != nil || !errors.As(findings.Err(), &invalid) || !invalid.Format {
		t.Errorf("empty bundle: got findings %v and error %v", findings, err)
	}
}

// A failure leaves the existing file and no temporary file.
func TestWriteFileAtomicallyFails(t *testing.T) {
	dir := writeFolder(t, map[string]string{"a": "old"})
	err := writeFileAtomically(filepath.Join(dir, "a"), iotest.ErrReader(errors.New("gone")))
	if err == nil || !strings.HasSuffix(err.Error(), "a: gone") {
		t.Errorf("got error %v", err)
	}
	if diff := cmp.Diff(map[string]string{"a": "old"}, readFolder(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
