package release_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

func TestParseMetadata(t *testing.T) {
	got, err := release.ParseMetadata([]byte(`{
		"kind": "cincinnati-metadata-v0", "version": "1.2.3-rc.1+build", "previous": ["1.2.2", "1.1.9"], "next": ["1.3.0"], "unknown": {"a": 1},
		"metadata": {"url": "https://example.com/errata/1", "io.openshift.upgrades.graph.release.channels": "stable-1,candidate-1, fast-1", "unknown": "kept"}}`))
	if err != nil {
		t.Fatal(err)
	}

	want := release.Metadata{
		Kind: release.KindMetadata, Version: "1.2.3-rc.1+build", Previous: []string{"1.2.2", "1.1.9"}, Next: []string{"1.3.0"},
		Metadata: map[string]string{"url": "https://example.com/errata/1", release.MetadataChannels: "stable-1,candidate-1, fast-1", "unknown": "kept"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"candidate-1", "fast-1", "stable-1"}, got.Channels()); diff != "" || got.URL() != "https://example.com/errata/1" {
		t.Errorf("URL %s, channels -want +got:\n%s", got.URL(), diff)
	}
	if got := (release.Metadata{}).Channels(); len(got) != 0 {
		t.Errorf("got channels %q, want none", got)
	}
}

func TestParseMetadataRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "cannot be read as JSON: unexpected end of JSON input",
		`null`:                              `kind must be "cincinnati-metadata-v0", not ""`,
		`[]`:                                "cannot be read as JSON: is a JSON array, not a JSON object",
		`{} {}`:                             "cannot be read as JSON: invalid character '{' after top-level value",
		`{"kind":"cincinnati-metadata-v0"}`: `version "" is not a semantic version`,
		`{"kind":"cincinnati-metadata-v0","version":"1.2"}`:                                     `version "1.2" is not a semantic version`,
		`{"kind":"cincinnati-metadata-v0","version":"v1.2.3"}`:                                  `version "v1.2.3" is not a semantic version`,
		`{"kind":"cincinnati-metadata-v1","version":"1.2.3"}`:                                   `kind must be "cincinnati-metadata-v0", not "cincinnati-metadata-v1"`,
		`{"kind":"cincinnati-metadata-v0","version":"1.2.3","previous":["1.2.2","x"]}`:          `previous[1] "x" is not a semantic version`,
		`{"kind":"cincinnati-metadata-v0","version":"1.2.3","next":[""]}`:                       `next[0] "" is not a semantic version`,
		`{"kind":"cincinnati-metadata-v0","version":1}`:                                         "cannot be read as JSON: version must not be a JSON number",
		`{"kind":"cincinnati-metadata-v0","version":"1.2.3","metadata":{"url":["x"]}}`:          "must not be a JSON array",
		`{"Kind":"cincinnati-metadata-v0","Version":"1.2.3"}`:                                   `kind must be "cincinnati-metadata-v0", not ""`,
		`{"kind":"cincinnati-metadata-v0","version":"1.2.3"` + strings.Repeat(" ", 1<<20) + `}`: "is larger than the 1048576 bytes that it may have",
	} {
		if _, err := release.ParseMetadata([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: got error %v, want %s", text, err, want)
		}
	}
}

func TestArchitecture(t *testing.T) {
	for value, want := range map[string]string{"": "arm64", "multi": release.ArchitectureMulti, "other": "arm64"} {
		m := release.Metadata{Metadata: map[string]string{release.MetadataArchitecture: value}}
		if got := m.Architecture("arm64"); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestEncode(t *testing.T) {
	metadata := release.Metadata{
		Kind: release.KindMetadata, Version: "1.2.3", Previous: []string{"1.2.2"}, Next: []string{"1.3.0"},
		Metadata: map[string]string{"url": "https://example.com/errata/1", "a": "b"},
	}
	written, err := metadata.Encode()
	if err != nil {
		t.Fatal(err)
	}

	golden.Check(t, "release-metadata", written)
	if again, err := release.ParseMetadata(written); err != nil || !cmp.Equal(again, metadata) {
		t.Errorf("metadata parsed again, error %v (-want +got):\n%s", err, cmp.Diff(metadata, again))
	}
	if _, err := (release.Metadata{}).Encode(); err == nil {
		t.Error("got no error of encoding metadata without a version, want one")
	}

	images := release.ImageReferences{
		Name: "1.2.3", Created: metav1.NewTime(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)), Annotations: map[string]string{"release.openshift.io/from-release": "x"},
		Tags: []release.ImageTag{
			{Name: "etcd", PullSpec: "registry.example/etcd@" + digest, Annotations: map[string]string{release.AnnotationCommit: "0123abc"}},
			{Name: "console", PullSpec: "registry.example:5000/a/console:v1@" + digest},
		},
	}
	if written, err = images.Encode(); err != nil {
		t.Fatal(err)
	}

	golden.Check(t, "image-references", written)
	if again, err := release.ParseImageReferences(written); err != nil || !cmp.Equal(again, images) {
		t.Errorf("images parsed again, error %v (-want +got):\n%s", err, cmp.Diff(images, again))
	}

	images.Tags[1].PullSpec = "registry.example/console:v1"
	if _, err := images.Encode(); err == nil {
		t.Error("got no error of encoding an image without a digest, want one")
	}
}

func TestImageReferencesPullSpec(t *testing.T) {
	images, err := release.ParseImageReferences([]byte(goodImages))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := images.PullSpec("etcd"); !ok || got != "registry.example/etcd@"+digest {
		t.Errorf("got found %v, %q; want the pull spec of etcd", ok, got)
	}
	if got, ok := images.PullSpec("unknown"); ok {
		t.Errorf("got pull spec %q of an unknown image, want none", got)
	}
}

// Components write image-references as YAML, often without a name.
func TestParseImageReferencesInYAML(t *testing.T) {
	const text = `# Images of the component.
kind: ImageStream
apiVersion: image.openshift.io/v1
spec:
  tags:
  - name: etcd
    annotations: {a: b}
    from: {kind: DockerImage, name: "registry.example/etcd:v1"}
`

	want := release.ImageReferences{Name: "0.0.1", Tags: []release.ImageTag{{Name: "etcd", PullSpec: "registry.example/etcd:v1", Annotations: map[string]string{"a": "b"}}}}
	got, err := release.ParseUnnamedImageReferences([]byte(text), "0.0.1")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, images (-want +got):\n%s", err, diff)
	}

	want.Name = "1.2.3"
	got, err = release.ParseImageReferences([]byte(text + "metadata: {name: 1.2.3}\n"))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("with a name: error %v, images (-want +got):\n%s", err, diff)
	}

	for text, want := range map[string]string{
		text:               "metadata.name is missing",
		"":                 "is empty",
		"a: [":             "cannot be read as YAML",
		"spec: {tags: {}}": "spec.tags must not be a JSON object",
		"a: &a [b, *a]":    "stands within what it stands for",
	} {
		if _, err := release.ParseImageReferences([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", text, err, want)
		}
	}
}

func TestParseImageReferencesRefuses(t *testing.T) {
	const head = `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"1.2.3"},"spec":{"tags":[`
	for text, want := range map[string]string{
		`{"kind":"ImageStream","apiVersion":"v1","metadata":{"name":"1.2.3"}}`:                  `must be an ImageStream of image.openshift.io/v1, not a "ImageStream" of "v1"`,
		`{"kind":"ConfigMap","apiVersion":"image.openshift.io/v1","metadata":{"name":"1.2.3"}}`: `not a "ConfigMap" of`,
		`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1"}`:                           "metadata.name is missing",
		head + `{"name":"a"}]}}`: `spec.tags[0] "a": from.kind must be DockerImage`,
		head + `{"name":"a","from":{"kind":"ImageStreamTag","name":"x"}}]}}`:                                                    `spec.tags[0] "a": from.kind must be DockerImage`,
		head + `{"name":"a","from":{"kind":"DockerImage"}}]}}`:                                                                  `spec.tags[0] "a": from.name is missing`,
		head + `{"from":{"kind":"DockerImage","name":"x"}}]}}`:                                                                  `spec.tags[0]: name is missing`,
		head + `{"name":"a","from":{"kind":"DockerImage","name":"x"}},{"name":"a","from":{"kind":"DockerImage","name":"y"}}]}}`: `spec.tags[1]: there is an image "a" already`,
		head + `{"name":["a"]}]}}`: "must not be a JSON array",
	} {
		if _, err := release.ParseImageReferences([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", text, err, want)
		}
	}
}

func TestParseImageStream(t *testing.T) {
	got, err := release.ParseImageStream([]byte(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"nightly"},
		"spec":{"tags":[{"name":"a","annotations":{"k":"v"},"from":{"kind":"DockerImage","name":"r/a:latest"}},{"name":"b","from":{"kind":"DockerImage","name":"r/b:1"}},{"name":"c","from":{"kind":"ImageStreamTag","name":"x:c"}}]},
		"status":{"dockerImageRepository":"inside:5000/ns/nightly","publicDockerImageRepository":"outside/ns/nightly","tags":[
		{"tag":"a","items":[{"dockerImageReference":"r/a@sha256:2"},{"dockerImageReference":"r/a@sha256:1"}]},{"tag":"b","items":[]},
		{"tag":"c","items":[{"dockerImageReference":"inside:5000/ns/nightly@sha256:3"}]},{"tag":"pushed","items":[{"dockerImageReference":"inside:5000/ns/nightly@sha256:4"}]}]}}`))
	want := release.ImageReferences{Name: "nightly", Tags: []release.ImageTag{
		{Name: "a", PullSpec: "r/a@sha256:2", Annotations: map[string]string{"k": "v"}}, {Name: "b", PullSpec: "r/b:1"},
		{Name: "c", PullSpec: "outside/ns/nightly@sha256:3"}, {Name: "pushed", PullSpec: "outside/ns/nightly@sha256:4"},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}

	const head = `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"x"},`
	for text, want := range map[string]string{
		`{`: "cannot be read as JSON", `{"kind":"ConfigMap"}`: `not a "ConfigMap" of ""`,
		head + `"spec":{"tags":[{"name":"a"}]}}`: `spec.tags[0] "a": it refers to no image yet`,
		head + `"spec":{"tags":[{"name":"a","from":{"kind":"DockerImage","name":"x"}},{"name":"a","from":{"kind":"DockerImage","name":"y"}}]}}`: `there is an image "a" already`,
	} {
		if _, err := release.ParseImageStream([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", text, err, want)
		}
	}
}

func TestCheckPinned(t *testing.T) {
	hex := strings.TrimPrefix(digest, "sha256:")
	for pullSpec, want := range map[string]bool{
		"registry.example/a@" + digest:                  true,
		"registry.example:5000/a/b:v1@" + digest:        true,
		"registry.example/a@sha512:" + hex + hex:        true,
		"registry.example/a":                            false,
		"registry.example/a:v1":                         false,
		"registry.example/a@sha256:" + hex[1:]:          false,
		"registry.example/a@" + strings.ToUpper(digest): false,
		"registry.example/a@" + digest + "0":            false,
		"registry.example/a@md5:" + hex[:32]:            false,
		"@" + digest:                                    false,
		"registry.example/a b@" + digest:                false,
		"registry.example/a@" + digest + "\n":           false,
	} {
		r := release.ImageReferences{Name: "1.2.3", Tags: []release.ImageTag{{Name: "a", PullSpec: pullSpec}}}
		if err := r.CheckPinned(); (err == nil) != want {
			t.Errorf("%q: got error %v, want pinned: %v", pullSpec, err, want)
		}
	}
}
