package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// platformObject returns a manifest for the default cluster profile. The argument more contains further fields.
func platformObject(kind, name, more string) string {
	return "apiVersion: config.openshift.io/v1\nkind: " + kind + "\nmetadata:\n  name: " + name +
		"\n  annotations:\n    include.release.openshift.io/self-managed-high-availability: \"true\"\n" + more
}

// operatorFiles are the files in the image of cluster-version-operator.
var operatorFiles = map[string]string{
	"manifests/0000_00_cluster-version-operator_00_own.yaml":                   platformObject("Own", "own", "spec: {image: '{{ .ReleaseImage }}', profile: '{{ .ClusterProfile }}'}\n"),
	"manifests/0000_00_cluster-version-operator_01_other.yaml":                 strings.ReplaceAll(platformObject("Own", "hosted", ""), "self-managed-high-availability", "hosted"),
	"manifests/0000_00_cluster-version-operator_02_console.yaml":               platformObject("Own", "console", "    capability.openshift.io/name: Console\n"),
	"manifests/0000_00_cluster-version-operator_03_shiny.yaml":                 platformObject("Own", "shiny", "    release.openshift.io/feature-gate: Shiny\n"),
	"manifests/0000_00_cluster-version-operator_04_mine.yaml":                  platformObject("Own", "mine", ""),
	"manifests/0000_90_cluster-version-operator_00_prometheusrole.yaml":        platformObject("Own", "monitoring-0", ""),
	"manifests/0000_90_cluster-version-operator_01_prometheusrolebinding.yaml": platformObject("Own", "monitoring-1", ""),
	"manifests/0000_90_cluster-version-operator_02_servicemonitor.yaml":        platformObject("Own", "monitoring-2", ""),
	"usr/bin/mainstay":             "the program",
	"bootstrap/bootstrap-pod.yaml": platformObject("Pod", "bootstrap", "spec: {image: '{{ .ReleaseImage }}', greeter: '{{ .Images.greeter }}'}\n"),
}

// platformFiles are the files of the release.
var platformFiles = map[string]string{
	"0000_10_greeter_00.yaml":       platformObject("Greeter", "greeter", "spec: {image: registry.example.com/greeter}\n"),
	"0000_10_policies_00.yaml":      platformObject("ClusterImagePolicy", "trusted", ""),
	"cluster-version.manifest":      "{kind: ClusterVersion, spec: {capabilities: {baselineCapabilitySet: None}, overrides: [{kind: Own, group: config.openshift.io, namespace: '', name: mine, unmanaged: true}]}}",
	"some-capabilities.manifest":    "{kind: ClusterVersion, spec: {capabilities: {baselineCapabilitySet: v4.11}}}",
	"feature-gate.manifest":         "{kind: FeatureGate, status: {featureGates: [{version: 1.0.0, enabled: [{name: Shiny}]}, {version: 0.9.0, enabled: []}]}}",
	"feature-gate-to-come.manifest": "{kind: FeatureGate, spec: {featureSet: CustomNoUpgrade, customNoUpgrade: {enabled: [Shiny]}}}",
	"feature-gate-unlike.manifest":  "[]",
	"image-references":              `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","spec":{"tags":[{"name":"greeter","from":{"kind":"DockerImage","name":"registry.example.com/greeter:1.0.0"}}]}}`,
}

// newPlatform builds a release that includes cluster-version-operator, and unpacks it.
func newPlatform(t *testing.T) *releaseFixture {
	t.Helper()
	s := newReleaseFixture(t)
	spec := image.Spec{Architecture: "amd64", Created: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Layers: []image.Layer{{}}}
	for name, content := range operatorFiles {
		spec.Layers[0].Files = append(spec.Layers[0].Files, image.File{Path: "/" + name, Content: []byte(content)})
		writeUnder(t, filepath.Join(s.dir, "payload", name), content)
	}

	ociregistry.Push(t, s.address+"/cvo:1.0.0", spec)
	for name, content := range platformFiles {
		writeUnder(t, filepath.Join(s.dir, "platform", name), strings.ReplaceAll(content, "registry.example.com", s.address))
	}

	shown := s.run("mainstay release new --from-dir platform --name 1.0.0 cluster-version-operator=registry.example.com/cvo:1.0.0 --to-image registry.example.com/releases:1.0.0 --to-dir unpacked")
	if strings.Contains(shown, "exit code") {
		t.Fatal(shown)
	}
	// Files in the root of the image.
	if err := os.CopyFS(filepath.Join(s.dir, "payload", "release-manifests"), os.DirFS(filepath.Join(s.dir, "unpacked", "release-manifests"))); err != nil {
		t.Fatal(err)
	}

	return s
}

func writeUnder(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// files prints the files of a directory.
func (s *releaseFixture) files(folder string) string {
	s.t.Helper()
	var all strings.Builder
	fsys := os.DirFS(filepath.Join(s.dir, folder))
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		all.WriteString("# " + name + "\n" + string(data))
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}

	return s.scrub(all.String())
}

// Bootstrap manifests are rendered from the registry and inside the image.
func TestRenderRelease(t *testing.T) {
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, filepath.Join(t.TempDir(), "none"))
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	s := newPlatform(t)
	const one, inside = "registry.example.com/releases:1.0.0", "--payload-dir payload --release-image registry.example.com/releases@sha256:DIGEST"
	cases := []struct{ name, line, folder string }{
		{"render", "mainstay release render " + one + " --output-dir rendered", "rendered"},
		{"render-inside", "mainstay release render " + inside + " --output-dir inside", "inside"},
		{"render-some", "mainstay release render " + inside + " --cluster-version-manifest-path platform/cluster-version.manifest --feature-gate-manifest-path platform/feature-gate.manifest --output-dir some", "some"},
		{"render-gates-to-come", "mainstay release render " + inside + " --feature-gate-manifest-path platform/feature-gate-to-come.manifest --output-dir more", ""},
		{"render-unnamed", "mainstay release render --payload-dir payload --output-dir unnamed", ""},
		{"render-nowhere", "mainstay release render " + one, ""},
		{"render-twice", "mainstay release render " + one + " " + inside + " --output-dir twice", ""},
		{"render-wrong-kind", "mainstay release render " + one + " --output-dir wrong --feature-gate-manifest-path platform/cluster-version.manifest", ""},
		{"render-unlike", "mainstay release render " + one + " --output-dir wrong --feature-gate-manifest-path platform/feature-gate-unlike.manifest", ""},
		{"extract-command", "mainstay release extract " + one + " --command mainstay --command-os linux/amd64 --to programs", "programs"},
		{"extract-command-elsewhere", "mainstay release extract " + one + " --command mainstay --command-os darwin/amd64", ""},
		{"extract-command-oc", "mainstay release extract " + one + " --command oc --command-os linux/arm64", ""},
		{"extract-command-foreign", "mainstay release extract " + one + " --command mainstay --command-os linux/arm64", ""},
		{"extract-command-unknown", "mainstay release extract " + one + " --command nothing", ""},
		{"extract-command-file", "mainstay release extract " + one + " --command mainstay --file x", ""},
		{"extract-git", "mainstay release extract " + one + " --git clones", ""},
		{"new-keep-one-platform", "mainstay release new --from-release " + one + " --name 1.0.1 --keep-manifest-list --dry-run", ""},
		{"image", "mainstay release image greeter --from " + one, ""},
		{"image-inside", "mainstay release image greeter --payload-dir payload", ""},
		{"image-not-there", "mainstay release image nothing --payload-dir payload", ""},
		{"image-no-payload", "mainstay release image greeter --payload-dir platform", ""},
		{"image-twice", "mainstay release image greeter --payload-dir payload --from " + one, ""},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			shown := s.run(c.line)
			if c.folder != "" {
				shown += s.files(c.folder)
			}

			t.Chdir(here)
			goldenCheck(t, "release/"+c.name, shown)
		})
	}

	s.t = t
	t.Run("the profile of the environment", func(t *testing.T) {
		t.Setenv("CLUSTER_PROFILE", "hosted")
		s.t = t
		s.run("mainstay release render " + one + " --output-dir hosted")
		if shown := s.files("hosted"); !strings.Contains(shown, "name: hosted") || strings.Contains(shown, "name: own") {
			t.Errorf("got for the profile hosted:\n%s", shown)
		}
	})
}
