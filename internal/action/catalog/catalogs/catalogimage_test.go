package catalogs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// writtenLayout is an image that was read from an OCI layout.
type writtenLayout struct {
	config imgspecv1.Image
	// files are the files of all layers, by name.
	files map[string]string
}

func readLayout(t *testing.T, dir string) writtenLayout {
	t.Helper()
	var index imgspecv1.Index
	decodeJSONFile(t, filepath.Join(dir, "index.json"), &index)
	blob := func(d imgspecv1.Descriptor) string { return filepath.Join(dir, "blobs/sha256", d.Digest.Encoded()) }
	var manifest imgspecv1.Manifest
	decodeJSONFile(t, blob(index.Manifests[0]), &manifest)
	l := writtenLayout{files: map[string]string{}}
	decodeJSONFile(t, blob(manifest.Config), &l.config)
	for _, layer := range manifest.Layers {
		data, err := os.ReadFile(blob(layer))
		if err != nil {
			t.Fatal(err)
		}

		plain, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}

		for reader := tar.NewReader(plain); ; {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}

			content, err := io.ReadAll(reader)
			if err != nil {
				t.Fatal(err)
			}
			if header.Typeflag == tar.TypeReg {
				l.files[header.Name] = string(content)
			}
		}
	}

	return l
}

func decodeJSONFile(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// writeValidCatalog writes a valid catalog and returns its text.
func writeValidCatalog(t *testing.T, dir string) string {
	t.Helper()
	text := `{"schema":"olm.package","name":"kettle","defaultChannel":"x"}
{"schema":"olm.channel","package":"kettle","name":"x","entries":[{"name":"kettle.v1"}]}
{"schema":"olm.bundle","package":"kettle","name":"kettle.v1","image":"example.com/kettle:v1","properties":[{"type":"olm.package","value":{"packageName":"kettle","version":"1.0.0"}}]}
`
	if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return text
}

// An image without a base image contains the program, which serves the catalog.
func TestCatalogImage(t *testing.T) {
	catalog, out := t.TempDir(), t.TempDir()
	text := writeValidCatalog(t, catalog)
	binaryFile := filepath.Join(out, "opm")
	elfFile := newELFProgram(t, elf.EM_S390, binary.ByteOrder(binary.BigEndian), elf.ELFDATA2MSB, elf.PT_LOAD)
	if err := os.WriteFile(binaryFile, elfFile, 0o600); err != nil {
		t.Fatal(err)
	}

	build := CatalogImage{
		Dir: catalog, Program: binaryFile, Labels: map[string]string{"one": "1"},
		Delivery: Delivery{Layout: filepath.Join(out, "layout"), Name: "registry.example.com/catalog:v1"},
	}
	if reference, err := build.Run(t.Context()); err != nil || reference != "" {
		t.Fatalf("got reference %q and error %v, want none", reference, err)
	}

	got := readLayout(t, build.Delivery.Layout)
	want := map[string]string{"bin/opm": string(elfFile), "configs/index.json": text}
	if diff := cmp.Diff(want, got.files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	config := imgspecv1.ImageConfig{
		Entrypoint: []string{"/bin/opm"}, Cmd: []string{"serve", "/configs"}, ExposedPorts: map[string]struct{}{"50051/tcp": {}},
		Labels: map[string]string{"one": "1", "operators.operatorframework.io.index.configs.v1": "/configs"},
	}
	if diff := cmp.Diff(config, got.config.Config); diff != "" || got.config.Architecture != "s390x" {
		t.Errorf("got architecture %s, configuration (-want +got):\n%s", got.config.Architecture, diff)
	}
}

// An image on scratch contains the catalog and no program.
func TestCatalogImageFromScratch(t *testing.T) {
	catalog, out := t.TempDir(), t.TempDir()
	writeValidCatalog(t, catalog)
	build := CatalogImage{Dir: catalog, Base: "scratch", Delivery: Delivery{Layout: filepath.Join(out, "layout")}}
	if _, err := build.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	got := readLayout(t, build.Delivery.Layout)
	if len(got.files) != 1 || got.config.Config.Entrypoint != nil || got.config.Config.Cmd != nil {
		t.Errorf("got files %v and configuration %+v", got.files, got.config.Config)
	}
}

// A file that cannot be the program of an image is rejected with advice.
func TestCatalogImageInvalidProgram(t *testing.T) {
	catalog, out := t.TempDir(), t.TempDir()
	writeValidCatalog(t, catalog)
	build := CatalogImage{Dir: catalog, Program: filepath.Join(catalog, "index.json"), Delivery: Delivery{Layout: filepath.Join(out, "layout")}}
	if _, err := build.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no 64-bit Linux program") {
		t.Errorf("got error %v, want one about the program", err)
	}
	if _, err := os.Stat(build.Delivery.Layout); err == nil {
		t.Error("got a layout, want none")
	}
}
