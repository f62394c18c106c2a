package opm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

func TestInit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "icon.svg", `<svg xmlns="http://www.w3.org/2000/svg"/>`)
	write(t, dir, "README.md", "# Kettle\n\nBoils <water> & more.\n")
	write(t, dir, "empty", "")
	for name, line := range map[string]string{
		"bare":           "init kettle",
		"full":           "init kettle --default-channel=preview --description=DIR/README.md --icon=DIR/icon.svg --output yaml",
		"full-json":      "init kettle -c preview -d DIR/README.md -i DIR/icon.svg",
		"no-icon":        "init kettle -i DIR/nothing",
		"empty-icon":     "init kettle -i DIR/empty",
		"text-icon":      "init kettle -i DIR/README.md",
		"no-description": "init kettle -d DIR/nothing",
		"no-name":        "init",
		"format":         "init kettle -o xml",
	} {
		t.Run(name, func(t *testing.T) {
			check(t, "init/"+name, run(t, strings.ReplaceAll(line, "DIR", dir)), dir, "DIR")
		})
	}
}

// Dockerfiles are generated in a directory with a catalog.
func TestGenerateDockerfile(t *testing.T) {
	for name, line := range map[string]string{
		"default":        "generate dockerfile catalog",
		"base":           "generate dockerfile catalog -i registry.redhat.io/openshift4/ose-operator-registry-rhel9:v4.18",
		"builder":        "generate dockerfile ./catalog/ -b example.com/opm:v1 -l one=1,two=2=2 -l one=3",
		"scratch":        "generate dockerfile catalog -i scratch",
		"binary":         "generate dockerfile catalog --binary-image example.com/opm:v1",
		"binary-base":    "generate dockerfile catalog --binary-image example.com/opm:v1 -i scratch",
		"scratch-build":  "generate dockerfile catalog -b scratch",
		"no-base":        "generate dockerfile catalog --base-image=",
		"label":          "generate dockerfile catalog -l one",
		"not-there":      "generate dockerfile nothing",
		"a-file":         "generate dockerfile catalog/index.json",
		"there-already":  "generate dockerfile other",
		"push-nowhere":   "generate dockerfile catalog --push",
		"push-label":     "generate dockerfile catalog --archive x.tar -l one",
		"push-not-valid": "generate dockerfile other --archive x.tar -i scratch",
		"no-program":     "generate dockerfile catalog --archive x.tar -i localhost:1/opm:v1",
	} {
		t.Run(name, func(t *testing.T) {
			goldens, err := filepath.Abs("testdata/dockerfile/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}

			dir := t.TempDir()
			write(t, dir, "catalog/index.json", `{"schema":"olm.package","name":"kettle","defaultChannel":"x"}
{"schema":"olm.channel","package":"kettle","name":"x","entries":[{"name":"kettle.v1"}]}
{"schema":"olm.bundle","package":"kettle","name":"kettle.v1","image":"example.com/kettle:v1","properties":[{"type":"olm.package","value":{"packageName":"kettle","version":"1.0.0"}}]}`)
			write(t, dir, "other/index.json", `{"schema":"olm.package","name":"kettle","defaultChannel":"x"}`)
			write(t, dir, "other.Dockerfile", "FROM nothing\n")
			t.Chdir(dir)
			text := run(t, line).String()
			if file, err := os.ReadFile("catalog.Dockerfile"); err == nil {
				text += "--- catalog.Dockerfile\n" + string(file)
			}

			golden.CheckFile(t, goldens, []byte(text))
		})
	}
}

// A catalog image has the content that its Dockerfile describes: the catalog, labels, and opm.
func TestCatalogImages(t *testing.T) {
	i := newRegistryFixture(t)
	dir := t.TempDir()
	reference := mustRun(t, "generate", "dockerfile", "testdata/catalog", "-i", "scratch", "-l", "one=1", "-t", i.address+"/files:v1", "--push",
		"--archive", filepath.Join(dir, "files.tar"), "--oci-layout", filepath.Join(dir, "files"))
	if !strings.HasPrefix(reference, i.address+"/files@sha256:") {
		t.Errorf("reference %q", reference)
	}
	if got, want := mustRun(t, "render", i.address+"/files:v1"), mustRun(t, "render", "testdata/catalog"); got != want {
		t.Errorf("got the image:\n%s", got)
	}

	for _, name := range []string{"files.tar", "files/oci-layout", "files/index.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}

	if _, err := os.Stat("testdata/catalog.Dockerfile"); err == nil {
		t.Error("got a Dockerfile, want none")
	}
	if r := run(t, "generate dockerfile testdata/catalog -i scratch --oci-layout "+dir+"/files"); r.code != 1 || !strings.Contains(r.errors, "is not empty") {
		t.Errorf("over an existing layout: got %s", r)
	}
	if out := mustRun(t, "generate", "dockerfile", "testdata/catalog", "-i", i.address+"/files:v1", "-t", i.address+"/files:v2", "--push"); out == reference {
		t.Error("got the same image with a base image and without")
	}
	if got, want := mustRun(t, "render", i.address+"/files:v2"), mustRun(t, "render", "testdata/catalog"); got != want {
		t.Errorf("got the image with a base image:\n%s", got)
	}
}

// createBundleDirectory creates a directory with the manifests of a bundle and changes to it.
func createBundleDirectory(t *testing.T) {
	t.Helper()
	csv, err := os.ReadFile("testdata/bundle/manifests/kettle.clusterserviceversion.yaml")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	write(t, dir, "0.1.0/manifests/csv.yaml", string(csv))
	write(t, dir, "other/manifests/csv.yaml", string(csv))
	write(t, dir, "other/metadata/annotations.yaml", "annotations:\n  operators.operatorframework.io.bundle.package.v1: pot\n")
	write(t, dir, "empty/notes.txt", "nothing\n")
	t.Chdir(dir)
}

func TestBundleGenerate(t *testing.T) {
	for name, line := range map[string]string{
		"default":    "alpha bundle generate -d 0.1.0/manifests -p kettle -c stable,beta -e stable",
		"no-default": "alpha bundle generate -d 0.1.0/manifests -p kettle -c stable",
		"output":     "alpha bundle generate -d 0.1.0/manifests -p kettle -c stable -u out --base-image example.com/base:v1",
		"over":       "alpha bundle generate -d other/manifests -p kettle -c stable",
		"no-package": "alpha bundle generate -d 0.1.0/manifests -c stable",
		"empty":      "alpha bundle generate -d empty -p kettle -c stable",
		"not-there":  "alpha bundle generate -d nothing -p kettle -c stable",
		"nothing":    "alpha bundle generate",
		"build":      "alpha bundle build -d other/manifests -p kettle -c stable -t example.com/kettle:v1",
		"build-tool": "alpha bundle build -d 0.1.0/manifests -p kettle -c stable -t example.com/kettle:v1 -b kaniko",
		"no-tool":    "alpha bundle build -d 0.1.0/manifests -p kettle -c stable -t example.com/kettle:v1 -b buildah",
	} {
		t.Run(name, func(t *testing.T) {
			goldens, err := filepath.Abs("testdata/bundles/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}

			createBundleDirectory(t)
			t.Setenv("PATH", t.TempDir())
			before, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}

			var text strings.Builder
			text.WriteString(strings.ReplaceAll(run(t, line).String(), before, "DIR"))
			for _, made := range []string{"bundle.Dockerfile", "0.1.0/metadata/annotations.yaml", "out/metadata/annotations.yaml", "out/manifests/csv.yaml"} {
				if file, err := os.ReadFile(made); err == nil {
					fmt.Fprintf(&text, "--- %s\n%s", made, file)
				}
			}

			golden.CheckFile(t, goldens, []byte(text.String()))
		})
	}
}

// A bundle is built by a container engine, or without one.
func TestBundleBuild(t *testing.T) {
	i := newRegistryFixture(t)
	createBundleDirectory(t)
	line := "alpha bundle build -d 0.1.0/manifests -p kettle -c stable -e stable -t " + i.address + "/built:v0.1.0"
	engine := installFakeEngine(t, "docker")
	if r := run(t, line); r.code != 0 {
		t.Fatal(r)
	}
	if asked := engine(); !strings.HasPrefix(asked, "build -f bundle.Dockerfile -t "+i.address+"/built:v0.1.0 .\nFROM scratch\n") {
		t.Errorf("got the calls of the engine:\n%s", asked)
	}

	t.Setenv("PATH", t.TempDir())
	if out := mustRun(t, append(strings.Fields(line), "--push")...); !strings.HasPrefix(out, i.address+"/built@sha256:") {
		t.Errorf("reference %q", out)
	}
	if out := mustRun(t, "render", i.address+"/built:v0.1.0", "--migrate"); !strings.Contains(out, `"name": "kettle.v0.1.0"`) {
		t.Error(out)
	}
	if out := mustRun(t, append(strings.Fields(line), "--push", "--base-image", i.address+"/kettle:v0.1.0", "--overwrite")...); out == "" {
		t.Error("nothing was pushed")
	}
	if r := run(t, "alpha bundle validate -t "+i.address+"/built:v0.1.0"); r.code != 0 || r.out != "" || !strings.HasPrefix(r.errors, `Command "validate" is deprecated, `) {
		t.Error(r)
	}
}

// pushMislabelledBundle pushes the bundle in testdata with labels of another one.
func pushMislabelledBundle(t *testing.T, ref string) {
	t.Helper()
	var files []image.File
	for _, name := range []string{"manifests/kettle.clusterserviceversion.yaml", "metadata/annotations.yaml"} {
		data, err := os.ReadFile("testdata/bundle/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, image.File{Path: "/" + name, Content: data})
	}
	labels := map[string]string{
		bundle.KeyMediaType: "helm", bundle.KeyManifests: "manifests/", bundle.KeyMetadata: "metadata/",
		bundle.KeyPackage: "pot", bundle.KeyDefaultChannel: "stable",
	}
	ociregistry.Push(t, ref, image.Spec{Labels: labels, Layers: []image.Layer{{Files: files}}})
}

func TestBundleValidate(t *testing.T) {
	i := newRegistryFixture(t)
	broken := t.TempDir()
	write(t, broken, "manifests/deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n")
	write(t, broken, "metadata/annotations.yaml", "annotations: {}\n")
	// The registry contains the images of the bundle in testdata, except for one.
	multiarch := t.TempDir()
	if err := os.CopyFS(multiarch, os.DirFS("testdata/bundle")); err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile("testdata/bundle/manifests/kettle.clusterserviceversion.yaml")
	if err != nil {
		t.Fatal(err)
	}

	write(t, multiarch, "manifests/kettle.clusterserviceversion.yaml", strings.ReplaceAll(string(text), "registry.example.com", i.address)+
		"  relatedImages:\n  - {name: lost, image: "+i.address+"/lost:v1}\n  - {name: old, image: "+i.address+"/old:v1}\n")
	pushPlatforms(t, i.address+"/kettle:v0.1.0", "amd64", "arm64")
	pushPlatforms(t, i.address+"/old:v1", "s390x")
	pushMislabelledBundle(t, i.address+"/mislabelled:v1")
	for name, line := range map[string]string{
		"labels":      "alpha bundle validate -t ADDRESS/mislabelled:v1",
		"multiarch":   "alpha bundle validate -t MULTIARCH -o multiarch",
		"tools":       "alpha bundle validate -t MULTIARCH -o multiarch --optional-values container-tools=docker",
		"bad-tools":   "alpha bundle validate -t MULTIARCH -o multiarch --optional-values=container-tools=crane",
		"bad-values":  "alpha bundle validate -t MULTIARCH -o multiarch --optional-values podman",
		"list":        "alpha bundle validate --list-optional",
		"folder":      "alpha bundle validate -t testdata/bundle",
		"operatorhub": "alpha bundle validate -t testdata/bundle -o operatorhub",
		"broken":      "alpha bundle validate -t BROKEN",
		"catalog":     "alpha bundle validate -t ADDRESS/catalog:v1 -b none",
		"not-there":   "alpha bundle validate -t ADDRESS/pan:v1",
		"no-tag":      "alpha bundle validate",
		"help":        "alpha bundle validate --help",
		"unpack":      "alpha bundle unpack ADDRESS/catalog:v1 -o BROKEN/out",
	} {
		t.Run(name, func(t *testing.T) {
			line := strings.NewReplacer("ADDRESS", i.address, "BROKEN", broken, "MULTIARCH", multiarch).Replace(line)
			check(t, "validate/"+name, run(t, line), broken, "BROKEN", multiarch, "MULTIARCH")
		})
	}

	if _, err := os.Stat(filepath.Join(broken, "out")); err == nil {
		t.Error("an image that is not a bundle was unpacked")
	}
	if r := run(t, "alpha bundle unpack "+i.address+"/catalog:v1 -v -o "+broken+"/out"); r.code != 0 {
		t.Error(r)
	}
}
