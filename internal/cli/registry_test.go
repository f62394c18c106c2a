package cli_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// Pushed images can be read back: bundles, a file-based catalog, and a catalog built from bundles.
func TestRegistry(t *testing.T) {
	address := ociregistry.Start(t).Host
	program := staticProgram(t)
	archive := filepath.Join(t.TempDir(), "catalog.tar")
	cases := []struct{ name, line string }{
		{"bundle-push", "mainstay bundle push testdata/bundles/kettle/0.1.0 ADDRESS/kettle:v0.1.0"},
		{"bundle-push-json", "mainstay bundle push testdata/bundles/kettle/0.1.0 ADDRESS/kettle:v0.1.0 -o json"},
		{"bundle-render", "mainstay catalog render ADDRESS/kettle:v0.1.0"},
		{"catalog-build", "mainstay catalog build testdata/catalog --push ADDRESS/files:v1"},
		{"catalog-render", "opm render ADDRESS/files:v1 -o yaml"},
		{"bundles-build", "mainstay catalog build testdata/bundles --push ADDRESS/made:v1 --output ARCHIVE"},
		{"bundles-build-json", "mainstay catalog build testdata/bundles --push ADDRESS/made:v1 -o json"},
		{"bundles-build-repo", "mainstay catalog build testdata/bundles --push ADDRESS/made:v2 --bundle-repo ADDRESS/elsewhere"},
		{"bundles-render", "opm render ADDRESS/made:v1 -o yaml"},
		{"rbac-generate", "mainstay rbac generate kettle --catalog ADDRESS/made:v1 --version 0.1.0 --update-from 0.2.0 -o name"},
		{"rbac-generate-bundle", "mainstay rbac generate --bundle ADDRESS/kettle:v0.1.0 -o name"},
		{"rbac-generate-not-there", "mainstay rbac generate kettle --catalog ADDRESS/nothing:v1"},
		{"bundle-by-tag", "opm render ADDRESS/made/kettle:v0.2.0_mug -o yaml"},
		{"image-build", "mainstay image build --binary PROGRAM --push ADDRESS/mainstay:v1"},
		{"image-build-archive", "mainstay image build --binary PROGRAM --output ARCHIVE"},
		{"image-build-no-authority", "mainstay image build --binary PROGRAM --certificate-authority PROGRAM --push ADDRESS/mainstay:v1"},
		{"image-build-no-program", "mainstay image build --binary testdata/catalog/kettle/catalog.yaml --push ADDRESS/mainstay:v1"},
		{"image-build-to-nowhere", "mainstay image build --binary PROGRAM"},
		{"image-render", "opm render ADDRESS/mainstay:v1"},
		{"not-there", "opm render ADDRESS/nothing:v1"},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			line := strings.NewReplacer("ADDRESS", address, "ARCHIVE", archive, "PROGRAM", program).Replace(c.line)
			shown := run(t, command{line: words(line)})
			shown = strings.NewReplacer(archive, "ARCHIVE", program, "PROGRAM").Replace(shown)
			goldenCheck(t, "registry/"+c.name, shown)
		})
	}

	checkArchive(t, archive)
}

// The image trusts the authorities of Mozilla and the given ones, but not the trust store of the build machine.
func TestImageTrustsAFixedList(t *testing.T) {
	address, program := ociregistry.Start(t).Host, staticProgram(t)
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	company := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	added := filepath.Join(t.TempDir(), "company.crt")
	if err := os.WriteFile(added, slices.Concat([]byte("# our own\n"), key, company), 0o600); err != nil {
		t.Fatal(err)
	}

	var public []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			public = append(public, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}

	if n := bytes.Count(public, []byte("-----BEGIN CERTIFICATE-----")); n < 100 {
		t.Fatalf("got %d public authorities, want at least 100", n)
	}

	for flags, want := range map[string][]byte{
		"":                                  public,
		" --certificate-authority " + added: slices.Concat(public, company),
	} {
		run(t, command{line: words("mainstay image build --binary " + program + flags + " --push " + address + "/mainstay:v1")})
		img, err := image.NewClient(image.Options{Architecture: "amd64"}).Pull(t.Context(), address+"/mainstay:v1")
		if err != nil {
			t.Fatal(err)
		}

		const file = "etc/ssl/certs/ca-certificates.crt"
		files, err := img.ReadFiles(t.Context(), 1<<20, file)
		_ = img.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := files[file]; !bytes.Equal(got, want) {
			t.Errorf("flags %q: got %d bytes of authorities, want %d; they differ", flags, len(got), len(want))
		}
	}
}

// staticProgram writes a minimal static Linux binary for x86-64: an ELF header (System V ABI, figure 4-3) without
// segments and sections.
func staticProgram(t *testing.T) string {
	t.Helper()
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}

	name := filepath.Join(t.TempDir(), "mainstay")
	if err := os.WriteFile(name, b.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}

	return name
}

// checkArchive checks that a file is an OCI archive.
func checkArchive(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := map[string]bool{}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = true
	}

	for _, want := range []string{"oci-layout", "index.json"} {
		if !found[want] {
			t.Errorf("got no %s in the archive, which has %v", want, found)
		}
	}

	left, err := filepath.Glob(filepath.Join(filepath.Dir(name), ".mainstay-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("got remaining files %v, error %v", left, err)
	}
}

// A dry run prints exactly the result of a push, including digests.
func TestDryRunTellsTheTruth(t *testing.T) {
	address := ociregistry.Start(t).Host
	output := func(line string) string {
		shown := run(t, command{line: words(line)})
		_, shown, _ = strings.Cut(shown, "\n")
		shown, _, _ = strings.Cut(shown, "--- stderr\n")
		return shown
	}

	dry := output("mainstay catalog build testdata/bundles --push " + address + "/made:v1 --dry-run")
	output("mainstay catalog build testdata/bundles --push " + address + "/made:v1")
	if pushed := output("opm render " + address + "/made:v1"); pushed != dry {
		t.Errorf("got the dry run\n%s\nwant the push\n%s", dry, pushed)
	}
}

// Every directory of real bundles results in a valid catalog.
func TestRealBundles(t *testing.T) {
	folder := checkout.SharedData(t, "bundles")
	packages, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}

	count := regexp.MustCompile(`(?m)^schema: olm\.(package|bundle)$`)
	for _, pkg := range packages {
		t.Run(pkg.Name(), func(t *testing.T) {
			dir := filepath.Join(folder, pkg.Name())
			versions, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}

			shown := run(t, command{line: []string{"mainstay", "catalog", "build", dir, "--push", "registry.example.com/catalog:v1", "--dry-run", "-o", "yaml"}})
			if got, want := len(count.FindAllString(shown, -1)), len(versions)+1; got != want || strings.Contains(shown, "exit code") {
				t.Fatalf("got %d packages and bundles, want %d:\n%.2000s", got, want, shown)
			}

			_, content, _ := strings.Cut(shown, "\n")
			content, _, _ = strings.Cut(content, "--- stderr")
			catalog := t.TempDir()
			if err := os.WriteFile(filepath.Join(catalog, "catalog.yaml"), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			if shown := run(t, command{line: []string{"opm", "validate", catalog}}); strings.Contains(shown, "exit code") {
				t.Error(shown)
			}
		})
	}
}
