package cli_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
	"github.com/mainstay-dev/mainstay/internal/testing/signingkey"
)

// releaseImages is a documentation page whose commands are run by a test.
var releaseImages = filepath.Join("..", "..", "docs", "release-images.md")

// releaseFixture is the environment for building releases: two registries and a directory.
type releaseFixture struct {
	t              *testing.T
	address, other string
	dir            string
	digest         string // digest of the release that was used last
}

// newReleaseFixture returns a fixture with images of the component greeter and with keys.
func newReleaseFixture(t *testing.T) *releaseFixture {
	t.Helper()
	s := &releaseFixture{t: t, address: ociregistry.Start(t).Host, other: ociregistry.Start(t).Host, dir: t.TempDir()}
	for _, tag := range []string{"1.0.0", "1.0.1", "1.0.1-rebuilt"} {
		version, _, _ := strings.Cut(tag, "-")
		s.push("greeter:"+tag, map[string]string{
			release.AnnotationCommit: strings.Repeat("c", 39) + version[4:], release.AnnotationSource: "https://github.com/example/greeter",
			release.AnnotationVersions: "greeter=" + version, release.AnnotationVersionNames: "greeter=The Greeter",
		}, tag)
	}

	s.writeKeys()
	return s
}

func (s *releaseFixture) push(name string, labels map[string]string, content string) {
	s.t.Helper()
	ociregistry.Push(s.t, s.address+"/"+name, image.Spec{Architecture: "amd64", Labels: labels, Layers: []image.Layer{{Files: []image.File{{Path: "/file", Content: []byte(content)}}}}})
}

func (s *releaseFixture) write(name string, data []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// writeKeys writes an OpenPGP key pair and a sigstore key pair.
func (s *releaseFixture) writeKeys() {
	s.t.Helper()
	entity := signingkey.NewEdDSA(s.t, "releases").Entity
	s.write("releases.key", encodeArmored(s.t, openpgp.PrivateKeyType, func(w io.Writer) error { return entity.SerializePrivate(w, nil) }))
	s.write("releases.asc", encodeArmored(s.t, openpgp.PublicKeyType, entity.Serialize))
	s.write("stranger.asc", encodeArmored(s.t, openpgp.PublicKeyType, signingkey.NewEdDSA(s.t, "stranger").Entity.Serialize))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}

	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}

	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		s.t.Fatal(err)
	}

	s.write("cosign.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	s.write("cosign.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
}

func encodeArmored(t *testing.T, kind string, write func(io.Writer) error) []byte {
	t.Helper()
	var text bytes.Buffer
	w, err := armor.Encode(&text, kind, nil)
	if err == nil {
		err = errors.Join(write(w), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}

	return text.Bytes()
}

// placeholders returns pairs of placeholders in command lines and their values.
func (s *releaseFixture) placeholders() []string {
	return []string{"registry.example.com", s.address, "mirror.example.org", s.other, "$PWD", s.dir, "sha256:DIGEST", s.digest}
}

// run runs a command line in the directory of the fixture, and returns its scrubbed output.
func (s *releaseFixture) run(line string) string {
	s.t.Helper()
	s.t.Chdir(s.dir)
	shown := run(s.t, command{line: split(strings.NewReplacer(s.placeholders()...).Replace(line))})
	if found := regexp.MustCompile(`(?m)^(?:signed )?(sha256:[0-9a-f]{64})`).FindStringSubmatch(shown); found != nil {
		s.digest = found[1]
	}
	return s.scrub(shown)
}

// scrub replaces values that differ between runs.
func (s *releaseFixture) scrub(text string) string {
	text = strings.NewReplacer(s.address, "registry.example.com", s.other, "mirror.example.org", s.dir, "$PWD").Replace(text)
	for _, r := range []struct{ pattern, with string }{
		{`sha256=[0-9a-f]{64}`, "sha256=DIGEST"}, {`sha256-[0-9a-f]{64}`, "sha256-DIGEST"}, {`sha256-[0-9a-f]{16}\b`, "sha256-SHORT"},
		{`key [0-9A-F]{16}`, "key KEY"}, {`(?m)^\d of (\d images): .*\n`, ""},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}

	return text
}

// copyExample copies the example of the page to the directory of the fixture.
func (s *releaseFixture) copyExample() {
	s.t.Helper()
	if err := os.CopyFS(filepath.Join(s.dir, "examples", "platform"), os.DirFS(filepath.Join("..", "..", "examples", "platform"))); err != nil {
		s.t.Fatal(err)
	}
}

// The commands of the page about release images work as documented.
func TestReleaseImagesPage(t *testing.T) {
	lines := exampleLines(t, releaseImages)
	if len(lines) < 8 {
		t.Fatalf("got only the lines %q of the page", lines)
	}

	s := newReleaseFixture(t)
	s.copyExample()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	var all strings.Builder
	for _, line := range lines {
		shown := s.run(line)
		if strings.Contains(shown, "--- exit code") {
			t.Errorf("%s", shown)
		}
		all.WriteString(shown)
	}

	t.Chdir(here)
	goldenCheck(t, "release/page", all.String())
}

func TestReleases(t *testing.T) {
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, filepath.Join(t.TempDir(), "none"))
	s := newReleaseFixture(t)
	s.copyExample()
	s.write("images.txt", []byte("# images\n\ngreeter="+s.address+"/greeter:1.0.0\n"))
	s.push("bare:1", nil, "bare")
	const one, two, three, four = "registry.example.com/releases:1.0.0", "registry.example.com/releases:1.1.0", "registry.example.com/releases:1.2.0", "registry.example.com/releases:1.3.0"
	const build = "mainstay release new --from-dir examples/platform --to-image-base scratch "
	cases := []struct{ name, line string }{
		{"new", build + "--name 1.0.0 greeter=registry.example.com/greeter:1.0.0 --to-image " + one},
		{"new-json", build + "--name 1.1.0 --previous 1.0.0,0.9.0 --next 1.2.0 --metadata url=https://example.com/1.1.0 --created 2026-01-31T12:00:00Z greeter=registry.example.com/greeter:1.0.1 --to-image " + two + " -o json"},
		{"new-to-files", build + "--name 1.0.0 greeter=registry.example.com/greeter:1.0.0 --to-dir made --to-file made.tar --to-signature made.json"},
		{"new-dry-run", build + "--name 1.0.0 --dry-run greeter=registry.example.com/greeter:1.0.0"},
		{"new-to-nowhere", build + "--name 1.0.0"},
		{"new-to-digest", build + "--name 1.0.0 --to-image " + one + "@sha256:DIGEST"},
		{"new-bad-mapping", "mainstay release new greeter"},
		{"new-no-base", "mainstay release new --from-dir examples/platform --name 1.0.0 --dry-run greeter=registry.example.com/greeter:1.0.0"},
		{"info", "mainstay release info " + two},
		{"info-pullspecs", "mainstay release info " + two + " --pullspecs"},
		{"info-commits", "mainstay release info " + two + " --commits"},
		{"info-commit-urls", "mainstay release info " + two + " --commit-urls"},
		{"info-size", "mainstay release info " + two + " --size"},
		{"info-image-for", "mainstay release info " + two + " --image-for greeter"},
		{"info-image-for-nothing", "mainstay release info " + two + " --image-for nothing"},
		{"info-json", "mainstay release info " + two + " -o json"},
		{"info-name", "mainstay release info " + two + " -o name"},
		{"info-digest", "mainstay release info " + two + " -o digest"},
		{"info-pullspec", "mainstay release info " + two + " -o pullspec"},
		{"info-jsonpath", "mainstay release info " + two + " -o jsonpath={.images[0].name}"},
		{"info-bad-jsonpath", "mainstay release info " + two + " -o jsonpath={.images["},
		{"info-template", `mainstay release info ` + two + ` -o "template={{.metadata.version}} {{.config.architecture}}{{range .references.spec.tags}} {{.name}}={{.from.name}}{{end}}{{println}}"`},
		{"info-bad-template", `mainstay release info ` + two + ` -o "template={{.metadata"`},
		{"info-wrong-template", `mainstay release info ` + two + ` -o "template={{range .digest}}{{end}}"`},
		{"info-no-jsonpath", "mainstay release info " + two + " -o jsonpath="},
		{"info-contents", "mainstay release info " + two + " --contents"},
		{"info-two", "mainstay release info " + one + " " + two},
		{"info-back", "mainstay release info " + two + " " + one},
		{"info-no-edges", "mainstay release info " + one},
		{"info-no-release", "mainstay release info registry.example.com/greeter:1.0.0"},
		{"info-not-there", "mainstay release info registry.example.com/nothing:1.0.0"},
		{"info-verify", "mainstay release info " + two + " --verify --keyring releases.asc --store file://$PWD/signatures"},
		{"diff-same", "mainstay release diff " + one + " " + one},
		{"diff-manifests", "mainstay release diff " + one + " " + two + " --manifests"},
		{"diff-changelog", "mainstay release diff " + one + " " + two + " --changelog"},
		{"diff-changelog-same", "mainstay release diff " + one + " " + one + " --changelog"},
		{"info-changelog", "mainstay release info " + one + " " + two + " --changelog clones"},
		{"diff-json", "mainstay release diff " + one + " " + two + " -o json"},
		{"extract", "mainstay release extract " + two + " --to all"},
		{"extract-by-digest", "mainstay release extract registry.example.com/releases@sha256:DIGEST --to all"},
		{"extract-file", "mainstay release extract " + two + " --file release-metadata"},
		{"extract-no-file", "mainstay release extract " + two + " --file nothing"},
		{"extract-included", "mainstay release extract --from " + two + " --to included --included --capability Ingress"},
		{"extract-contradiction", "mainstay release extract " + two + " --file x --included"},
		{"extract-unknown-cloud", "mainstay release extract " + two + " --credentials-requests --cloud nine"},
		{"sign", "mainstay release sign " + two + " --key releases.key --to-store signatures --to-configmap signature.yaml"},
		{"sign-again", "mainstay release sign " + two + " --key releases.key --to-store signatures -o json"},
		{"sign-sigstore", "mainstay release sign " + two + " --sigstore-key cosign.key"},
		{"sign-nothing", "mainstay release sign " + two},
		{"sign-to-nowhere", "mainstay release sign " + two + " --key releases.key"},
		{"sign-public-key", "mainstay release sign " + two + " --key releases.asc --to-store signatures"},
		{"verify", "mainstay release verify registry.example.com/releases@sha256:DIGEST --keyring releases.asc --store file://$PWD/signatures"},
		{"verify-configmap", "mainstay release verify registry.example.com/releases@sha256:DIGEST --keyring releases.asc --signatures signature.yaml"},
		{"verify-sigstore", "mainstay release verify registry.example.com/releases@sha256:DIGEST --key cosign.pub"},
		{"verify-foreign", "mainstay release verify registry.example.com/releases@sha256:DIGEST --keyring releases.asc --keyring stranger.asc --store file://$PWD/signatures"},
		{"verify-tag", "mainstay release verify " + two + " --keyring releases.asc --store file://$PWD/signatures"},
		{"verify-nobody", "mainstay release verify registry.example.com/releases@sha256:DIGEST"},
		{"mirror-dry-run", "mainstay release mirror " + two + " --to mirror.example.org/releases --dry-run"},
		{"mirror", "mainstay release mirror " + two + " --to mirror.example.org/releases"},
		{"mirror-icsp", "mainstay release mirror " + two + " --to mirror.example.org/${component} --print-mirror-instructions icsp"},
		{"mirror-to-dir", "mainstay release mirror " + two + " --to-dir carry --keyring releases.asc --store file://$PWD/signatures"},
		{"mirror-from-dir", "mainstay release mirror --from-dir carry --to mirror.example.org/carried --print-mirror-instructions none"},
		{"mirror-unsigned", "mainstay release mirror " + one + " --to-dir unsigned --keyring releases.asc --store file://$PWD/signatures"},
		{"mirror-to-nowhere", "mainstay release mirror " + two},
		{"mirror-to-tag", "mainstay release mirror " + two + " --to mirror.example.org/releases:v1"},
		{"from-release", "mainstay release new --from-release " + two + " --name 1.1.1 --mapping-file images.txt --dry-run"},
		{"no-cluster", "mainstay release info 1.0.0"},
		{"new-third", build + "--name 1.2.0 greeter=registry.example.com/greeter:1.0.1-rebuilt worker=registry.example.com/greeter:1.0.1 bare=registry.example.com/bare:1 --include worker,bare --to-image " + three},
		{"new-fourth", build + "--name 1.3.0 greeter=registry.example.com/bare:1 bare=registry.example.com/greeter:1.0.0 --include bare --to-image " + four},
		{"diff-changelog-images", "mainstay release diff " + two + " " + three + " --changelog"},
		{"diff-changelog-unknown", "mainstay release diff " + three + " " + four + " --changelog"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			here, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			s.t = t
			shown := s.run(c.line)
			t.Chdir(here)
			goldenCheck(t, "release/"+c.name, shown)
		})
	}
	s.t = t
	checkCarried(t, s)
	checkExtracted(t, s)
}

// checkCarried verifies the release only with the signature file that was mirrored with it.
func checkCarried(t *testing.T, s *releaseFixture) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "carry", "config", "signature-sha256-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got the signatures %v in the folder, error %v", files, err)
	}

	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	s.run("mainstay release info mirror.example.org/carried:1.1.0-x86_64 -o digest")
	shown := s.run("mainstay release verify mirror.example.org/carried@sha256:DIGEST --keyring releases.asc --signatures " + files[0])
	t.Chdir(here)
	if !strings.HasSuffix(shown, "is signed\n") || strings.Contains(shown, "stderr") {
		t.Error(shown)
	}
}

// checkExtracted checks the files that the commands wrote.
func checkExtracted(t *testing.T, s *releaseFixture) {
	t.Helper()
	for folder, want := range map[string]string{
		"all":                    "0000_10_greeter_00_namespace.yaml 0000_30_greeter_01_deployment.yaml 0000_50_console_01_links.yaml image-references release-metadata",
		"included":               "0000_10_greeter_00_namespace.yaml 0000_30_greeter_01_deployment.yaml",
		"made/release-manifests": "0000_10_greeter_00_namespace.yaml 0000_30_greeter_01_deployment.yaml 0000_50_console_01_links.yaml image-references release-metadata",
	} {
		entries, err := os.ReadDir(filepath.Join(s.dir, folder))
		if err != nil {
			t.Fatal(err)
		}

		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}

		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has %s, want %s", folder, got, want)
		}
	}

	data, err := os.ReadFile(filepath.Join(s.dir, "all", "0000_30_greeter_01_deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"---\napiVersion: apps/v1\n", "image: " + s.address + "/greeter@sha256:", "value: 1.1.0\n"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in:\n%s", want, data)
		}
	}
}

// A release specifies the keys of its updates.
func TestReleaseIsTrusted(t *testing.T) {
	s := newReleaseFixture(t)
	s.copyExample()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	keyring, err := os.ReadFile(filepath.Join(s.dir, "releases.asc"))
	if err != nil {
		t.Fatal(err)
	}

	trust, err := yaml.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "release-verification", Namespace: "openshift-config-managed", Annotations: map[string]string{"release.openshift.io/verification-config-map": ""}},
		Data:       map[string]string{"verifier-public-key-ours": string(keyring), "store-ours": "file://" + s.dir + "/signatures"},
	})
	if err != nil {
		t.Fatal(err)
	}

	s.write("examples/platform/0000_05_trust_00_releases.yaml", trust)
	var all strings.Builder
	for _, line := range []string{
		"mainstay release new --from-dir examples/platform --to-image-base scratch --name 1.0.0 greeter=registry.example.com/greeter:1.0.0 --to-image registry.example.com/releases:1.0.0",
		"mainstay release new --from-dir examples/platform --to-image-base scratch --name 1.0.1 greeter=registry.example.com/greeter:1.0.1 --to-image registry.example.com/releases:1.0.1",
		"mainstay release verify registry.example.com/releases@sha256:DIGEST --trust-release registry.example.com/releases:1.0.0",
		"mainstay release sign registry.example.com/releases:1.0.1 --key releases.key --to-store signatures",
		"mainstay release verify registry.example.com/releases@sha256:DIGEST --trust-release registry.example.com/releases:1.0.0",
		"mainstay release verify registry.example.com/releases@sha256:DIGEST --trust-release registry.example.com/greeter:1.0.0",
		"mainstay release new --from-release registry.example.com/releases:1.0.1 --name 1.0.2 --verification-key releases.asc --verification-store file://$PWD/signatures --dry-run",
	} {
		all.WriteString(s.run(line))
	}

	if err := os.Remove(filepath.Join(s.dir, "examples/platform/0000_05_trust_00_releases.yaml")); err != nil {
		t.Fatal(err)
	}

	const build = "mainstay release new --from-dir examples/platform --to-image-base scratch greeter=registry.example.com/greeter:1.0.1 --name "
	for _, line := range []string{
		build + "2.0.0 --verification-key releases.asc --verification-key stranger.asc --verification-store file://$PWD/signatures --to-image registry.example.com/releases:2.0.0",
		"mainstay release info registry.example.com/releases:1.0.1 -o digest",
		"mainstay release verify registry.example.com/releases@sha256:DIGEST --trust-release registry.example.com/releases:2.0.0",
		build + "2.0.0 --verification-key releases.asc --dry-run",
		build + "2.0.0 --verification-key examples/../releases.asc --verification-key releases.asc --verification-store https://example.com --dry-run",
	} {
		all.WriteString(s.run(line))
	}

	t.Chdir(here)
	goldenCheck(t, "release/trust-release", all.String())
}
