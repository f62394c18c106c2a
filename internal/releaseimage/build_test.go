package releaseimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// A release is built from images. Operators contribute manifests, whose references and versions
// are replaced by those of the release.
func TestBuildFromImages(t *testing.T) {
	s := newFixture(t)
	base := s.pushBase()
	worker := s.pushImage("worker:v1", nil, map[string]string{"/worker": "1"})
	unused := s.pushImage("unused:v1", nil, map[string]string{"/unused": "1"})
	console := s.pushOperator("console:v1", map[string]string{
		release.AnnotationVersions: "kubernetes=1.36.6", release.AnnotationCommit: "abc",
	}, map[string]string{
		"0000_50_console_01.yaml": configMapManifest("console", "quay.io/org/worker:latest runs 0.0.1-snapshot on 0.0.1-snapshot-kubernetes"),
		"extra.yaml":              configMapManifest("extra", "quay.io/org/worker-two:latest"),
		"image-references":        imageReferencesJSON(map[string]string{"worker": "quay.io/org/worker:latest"}),
		"README.md":               "nothing",
	})

	other := s.pushOperator("other:v1", nil, map[string]string{"0000_50_console_01.yaml": configMapManifest("other", "the same name")})
	build := func() *Build {
		return &Build{
			Clients: s.clients, Name: "1.2.3+build", Previous: []string{"1.2.2"}, Metadata: map[string]string{"url": "https://example.com"},
			Images: []Mapping{
				{Name: "unused", Image: s.host + "/unused:v1"}, {Name: "other", Image: other}, {Name: "console", Image: s.host + "/console:v1"},
				{Name: "worker", Image: s.host + "/worker:v1"}, {Name: DefaultBase, Image: s.host + "/cvo:v1"},
			},
		}
	}

	composed := mustCompose(t, build())
	want := []string{
		"release-manifests/0000_50_console_01.yaml", "release-manifests/0000_50_console_01_2.yaml", "release-manifests/0000_50_console_extra.yaml",
		"release-manifests/image-references", "release-manifests/release-metadata",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(composed.Files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got, want := string(composed.Files["release-manifests/0000_50_console_01.yaml"]), configMapManifest("console", worker+" runs 1.2.3 on 1.36.6"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := string(composed.Files["release-manifests/0000_50_console_extra.yaml"]); !strings.Contains(got, "quay.io/org/worker-two:latest") {
		t.Errorf("got %s, want the reference of the other image unchanged", got)
	}

	wantImages := []release.ImageTag{
		{Name: DefaultBase, PullSpec: base},
		{Name: "console", PullSpec: console, Annotations: map[string]string{release.AnnotationVersions: "kubernetes=1.36.6", release.AnnotationCommit: "abc"}},
		{Name: "other", PullSpec: other}, {Name: "worker", PullSpec: worker},
	}
	slices.SortFunc(wantImages, func(a, b release.ImageTag) int { return strings.Compare(a.Name, b.Name) })
	if diff := cmp.Diff(wantImages, composed.Images.Tags); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`image "unused" is left out: nothing names it`}, composed.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if composed.Base != base || unused == "" {
		t.Errorf("got base image %s, want %s", composed.Base, base)
	}
	if got := composed.Images.Created.UTC(); !got.Equal(time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got creation time %s, want that of the newest image", got)
	}

	included := build()
	included.Include, included.Exclude = []string{"unused"}, []string{"other"}
	if _, ok := mustCompose(t, included).Images.PullSpec("unused"); !ok {
		t.Error("got no image unused, want it because it is included explicitly")
	}
	if _, ok := mustCompose(t, included).Images.PullSpec("other"); ok {
		t.Error("got image other, want it excluded")
	}

	first, second := s.pushRelease("releases:1", build()), s.pushRelease("releases:2", build())
	if digestFromReference(first) != digestFromReference(second) {
		t.Errorf("got releases %s and %s of the same input, want the same digest", first, second)
	}

	checkRelease(t, s, first, base)
}

func digestFromReference(canonical string) string {
	_, digest, _ := strings.Cut(canonical, "@")
	return digest
}

// checkRelease checks the release that TestBuildFromImages built.
func checkRelease(t *testing.T, s *fixture, canonical, base string) {
	t.Helper()
	opened, err := Open(t.Context(), s.client, canonical)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	want := map[string]string{LabelRelease: "1.2.3+build", LabelBaseDigest: digestFromReference(base)}
	if diff := cmp.Diff(want, opened.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	wantMetadata := release.Metadata{Kind: release.KindMetadata, Version: "1.2.3+build", Previous: []string{"1.2.2"}, Metadata: map[string]string{"url": "https://example.com"}}
	if diff := cmp.Diff(wantMetadata, opened.Payload.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}

	var names []string
	for _, m := range opened.Payload.Manifests {
		names = append(names, m.Object.GetName())
	}

	if diff := cmp.Diff([]string{"own", "console", "other", "extra"}, names); diff != "" {
		t.Errorf("manifests (-want +got):\n%s", diff)
	}
	if value := opened.Payload.Manifests[0].Object.Object["data"].(map[string]any)["value"]; value != canonical {
		t.Errorf("got release image %v in the own manifest, want %s", value, canonical)
	}

	dir := t.TempDir()
	if err := opened.Unpack(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := release.Load(os.DirFS(dir), release.Options{}); err != nil {
		t.Error(err)
	}
	if data, err := opened.ReadFile("0000_00_cluster-version-operator_01.yaml"); err != nil || !strings.Contains(string(data), "{{.ReleaseImage}}") {
		t.Errorf("got %q (error %v), want the template", data, err)
	}

	for _, name := range []string{"nothing", "../release-metadata", "manifests/x", ""} {
		if _, err := opened.ReadFile(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: got error %v, want %v", name, err, os.ErrNotExist)
		}
	}

	program, err := s.client.Pull(t.Context(), canonical)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	all := t.TempDir()
	if _, err := program.Extract(t.Context(), "/", all); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(all, "usr/bin/program")); string(data) != "program" {
		t.Errorf("got program %q (error %v), want program", data, err)
	}
}

func TestBuildFromDir(t *testing.T) {
	s := newFixture(t)
	worker, changed := s.pushImage("worker:v1", nil, map[string]string{"/worker": "1"}), s.pushImage("worker:v2", nil, map[string]string{"/worker": "2"})
	files := map[string]string{
		"release-metadata":      `{"kind":"cincinnati-metadata-v0","version":"1.0.0","previous":["0.9.0"]}`,
		"image-references":      imageReferencesJSON(map[string]string{"worker": worker}),
		"0000_10_worker_1.yaml": configMapManifest("worker", worker),
		"notes.txt":             "not part of it",
	}

	flat := mustCompose(t, &Build{Clients: s.clients, FromDir: newFolder(files), Base: BaseNone})
	if got := string(flat.Files["release-manifests/0000_10_worker_1.yaml"]); got != files["0000_10_worker_1.yaml"] {
		t.Errorf("got manifest %s, want it unchanged", got)
	}
	if flat.Metadata.Version != "1.0.0" || flat.Base != "" {
		t.Errorf("got metadata %v and base image %q, want version 1.0.0 and none", flat.Metadata, flat.Base)
	}

	overridden := mustCompose(t, &Build{
		Clients: s.clients, FromDir: newFolder(files), Base: BaseNone, Name: "1.0.1", Previous: []string{"1.0.0", "0.9.0"},
		Images: []Mapping{{Name: "worker", Image: s.host + "/worker:v2"}},
	})
	if got := string(overridden.Files["release-manifests/0000_10_worker_1.yaml"]); got != configMapManifest("worker", changed) {
		t.Errorf("got manifest %s, want it with the overridden image", got)
	}

	want := []release.ImageTag{{Name: "worker", PullSpec: changed, Annotations: map[string]string{annotationOverride: "true"}}}
	if diff := cmp.Diff(want, overridden.Images.Tags); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"0.9.0", "1.0.0"}, overridden.Metadata.Previous); diff != "" {
		t.Errorf("previous (-want +got):\n%s", diff)
	}

	// The written files can be the input of a build.
	dir := t.TempDir()
	nested := map[string]string{"manifests/0000_00_own_1.yaml": configMapManifest("own", "{{.ReleaseImage}}")}
	for name, content := range files {
		nested["release-manifests/"+name] = content
	}

	first := mustCompose(t, &Build{Clients: s.clients, FromDir: newFolder(nested), Base: BaseNone})
	if err := first.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := first.Write(dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got error %v, want one with \"is not empty\"", err)
	}

	again := mustCompose(t, &Build{Clients: s.clients, FromDir: os.DirFS(dir), Base: BaseNone})
	if diff := cmp.Diff(first.Files, again.Files); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
}

func TestBuildFromRelease(t *testing.T) {
	s := newFixture(t)
	base := s.pushBase()
	worker := s.pushImage("worker:v1", nil, map[string]string{"/worker": "1"})
	newWorker := s.pushImage("worker:v2", nil, map[string]string{"/worker": "2"})
	console := s.pushOperator("console:v1", nil, map[string]string{"0000_50_console_01.yaml": configMapManifest("console", "old"), "0000_50_console_02.yaml": configMapManifest("gone", "old")})
	newConsole := s.pushOperator("console:v2", nil, map[string]string{"0000_50_console_01.yaml": configMapManifest("console", "new")})
	first := s.pushRelease("releases:1.0.0", &Build{
		FromDir: newFolder(map[string]string{"0000_10_worker_1.yaml": configMapManifest("worker", worker), "image-references": imageReferencesJSON(map[string]string{"worker": worker})}),
		Name:    "1.0.0", Images: []Mapping{{Name: DefaultBase, Image: base}, {Name: "console", Image: console}},
	})
	same := s.pushRelease("releases:again", &Build{FromRelease: first})
	if digestFromReference(same) != digestFromReference(first) {
		t.Errorf("got release %s of the same input, want the digest of %s", same, first)
	}

	composed := mustCompose(t, &Build{
		Clients: s.clients, FromRelease: first, Name: "1.0.1", Previous: []string{"1.0.0"},
		Images: []Mapping{{Name: "console", Image: newConsole}, {Name: "worker", Image: newWorker}},
	})
	want := map[string]string{
		"release-manifests/0000_10_worker_1.yaml": configMapManifest("worker", newWorker), "release-manifests/0000_50_console_01.yaml": configMapManifest("console", "new"),
	}
	got := map[string]string{}
	for name, data := range composed.Files {
		if release.IsManifestFile(name) {
			got[name] = string(data)
		}
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if composed.Images.Annotations[annotationFromRelease] != first {
		t.Errorf("got annotations %v, want them to name %s", composed.Images.Annotations, first)
	}

	// A release whose manifests differ from those of its images is not accepted as their result.
	tampered, err := image.Build(image.Spec{
		Labels: map[string]string{LabelBaseDigest: digestFromReference(base)},
		Layers: []image.Layer{{Files: append(releaseFilesExcept(t, s, first), image.File{Path: "/release-manifests/0000_50_console_01.yaml", Content: []byte(configMapManifest("console", "tampered"))})}},
	})
	if err != nil {
		t.Fatal(err)
	}

	_, err = (&Build{Clients: s.clients, FromRelease: s.pushBuilt("releases:tampered", tampered)}).Compose(t.Context())
	if !errors.Is(err, ErrNotReproducible) || !strings.Contains(err.Error(), "0000_50_console_01.yaml differs") {
		t.Errorf("got error %v, want %v with the manifest", err, ErrNotReproducible)
	}
}

// A release without a base image contains all of its manifests.
func TestBuildFromReleaseWithoutBase(t *testing.T) {
	s := newFixture(t)
	worker, extra := s.pushImage("worker:v1", nil, map[string]string{"/worker": "1"}), s.pushImage("extra:v1", nil, map[string]string{"/extra": "1"})
	first := s.pushRelease("releases:1.0.0", &Build{
		FromDir: newFolder(map[string]string{
			"manifests/0000_00_own_1.yaml": configMapManifest("own", "{{.ReleaseImage}}"), "release-manifests/0000_10_worker_1.yaml": configMapManifest("worker", worker),
			"release-manifests/image-references": imageReferencesJSON(map[string]string{"worker": worker, "extra": extra}),
		}),
		Name: "1.0.0", Base: BaseNone,
	})
	if same := s.pushRelease("releases:again", &Build{FromRelease: first}); digestFromReference(same) != digestFromReference(first) {
		t.Errorf("got release %s of the same input, want the digest of %s", same, first)
	}

	composed := mustCompose(t, &Build{Clients: s.clients, FromRelease: first, Name: "1.0.1", Exclude: []string{"extra"}})
	if got := string(composed.Files["manifests/0000_00_own_1.yaml"]); got != configMapManifest("own", "{{.ReleaseImage}}") {
		t.Errorf("got the own manifest %q, want the template", got)
	}
	if diff := cmp.Diff([]release.ImageTag{{Name: "worker", PullSpec: worker}}, composed.Images.Tags); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

// releaseFilesExcept returns the files of a release but one.
func releaseFilesExcept(t *testing.T, s *fixture, canonical string) []image.File {
	t.Helper()
	opened, err := Open(t.Context(), s.client, canonical)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	var files []image.File
	for _, folder := range []string{release.FolderOwn, release.FolderRelease} {
		names, err := listFileNames(opened.Files(), folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if name == "0000_50_console_01.yaml" {
				continue
			}
			data, err := opened.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, image.File{Path: "/" + folder + "/" + name, Content: data})
		}
	}

	return files
}

func TestBuildRefuses(t *testing.T) {
	s := newFixture(t)
	s.pushBase()
	unknown := s.pushOperator("unknown:v1", nil, map[string]string{"a.yaml": configMapManifest("a", ""), "image-references": imageReferencesJSON(map[string]string{"x": "quay.io/x"})})
	snapshot := s.pushOperator("snapshot:v1", nil, map[string]string{"a.yaml": configMapManifest("a", "0.0.1-snapshot-kubernetes")})
	one := s.pushOperator("one:v1", map[string]string{release.AnnotationVersions: "kubernetes=1.1.1"}, map[string]string{"a.yaml": configMapManifest("a", "")})
	two := s.pushOperator("two:v1", map[string]string{release.AnnotationVersions: "kubernetes=1.1.2"}, map[string]string{"a.yaml": configMapManifest("b", "")})
	broken := s.pushOperator("broken:v1", nil, map[string]string{"a.yaml": "kind: ConfigMap\nmetadata: {name: a}\n"})
	bare := s.pushImage("bare:v1", map[string]string{LabelOperator: "true"}, map[string]string{"/x": ""})
	with := func(images ...string) *Build {
		b := &Build{Name: "1.0.0", Images: []Mapping{{Name: DefaultBase, Image: s.host + "/cvo:v1"}}}
		for i, image := range images {
			b.Images = append(b.Images, Mapping{Name: fmt.Sprintf("image-%d", i), Image: image})
		}
		return b
	}

	dir := newFolder(map[string]string{"a.yaml": configMapManifest("a", "")})
	tests := map[string]struct {
		build *Build
		want  string
	}{
		"nothing":             {&Build{}, "there is nothing to make a release from"},
		"two sources":         {&Build{FromDir: dir, FromRelease: "x"}, "name one of them"},
		"no name":             {&Build{FromDir: dir, Base: BaseNone}, "the release has no name"},
		"a bad name":          {&Build{FromDir: dir, Base: BaseNone, Name: "v1"}, `the name "v1" of the release is not a semantic version`},
		"a bad previous":      {&Build{FromDir: dir, Base: BaseNone, Name: "1.0.0", Previous: []string{"x"}}, `previous[0] "x" is not a semantic version`},
		"no base":             {&Build{FromDir: dir, Name: "1.0.0"}, `the release has no image "cluster-version-operator" to build upon`},
		"an empty folder":     {&Build{FromDir: newFolder(nil), Name: "1.0.0"}, "the folder has no manifests"},
		"bad metadata":        {&Build{FromDir: newFolder(map[string]string{"a.yaml": "", "release-metadata": "{"}), Name: "1.0.0"}, "release-metadata: cannot be read as JSON"},
		"an unknown image":    {with(unknown), `no input image tag named "x"`},
		"an unknown version":  {with(snapshot), `0.0.1-snapshot-kubernetes: no image of the release states the version of "kubernetes"`},
		"two versions":        {with(one, two), `component kubernetes has version 1.1.1 in the image "image-0", and 1.1.2 in "image-1"`},
		"a broken manifest":   {with(broken), "0000_50_image-0_a.yaml: document 1: is not a Kubernetes object: apiVersion is missing"},
		"no manifests":        {with(bare), "there is no folder /manifests"},
		"an image not there":  {with(s.host + "/nothing:v1"), `image "image-0": pull image`},
		"an image twice":      {&Build{Name: "1.0.0", Images: []Mapping{{Name: "a", Image: "x"}, {Name: "a", Image: "y"}}}, `the image "a" is given twice`},
		"no release":          {&Build{FromRelease: s.host + "/bare:v1"}, "is not valid"},
		"nothing to leave":    {&Build{FromDir: dir, Base: BaseNone, Name: "1.0.0", Exclude: []string{"x"}}, `there is no image "x" to exclude`},
		"a base not there":    {&Build{FromDir: dir, Base: s.host + "/nothing:v1", Name: "1.0.0"}, "the image to build upon: pull image"},
		"a tag that moves on": {&Build{FromDir: newFolder(map[string]string{"a.yaml": configMapManifest("a", ""), "image-references": imageReferencesJSON(map[string]string{"x": s.host + "/gone:v1"})}), Base: BaseNone, Name: "1.0.0"}, `image "x": pull image`},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.build.Clients = s.clients
			_, err := test.build.Compose(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}

	missing := with(unknown)
	missing.Clients, missing.AllowMissing = s.clients, true
	if got := mustCompose(t, missing); len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], `no input image tag named "x"`) {
		t.Errorf("got warnings %q, want one about the missing image", got.Warnings)
	}

	unchecked := with(broken)
	unchecked.Clients, unchecked.SkipCheck = s.clients, true
	mustCompose(t, unchecked)
}

func TestBuildFromStream(t *testing.T) {
	s := newFixture(t)
	s.pushBase()
	worker := s.pushImage("worker:v1", nil, map[string]string{"/worker": "1"})
	stream, err := release.ParseImageReferences([]byte(strings.Replace(imageReferencesJSON(map[string]string{
		DefaultBase: s.host + "/cvo:v1", "worker": s.host + "/worker:v1", "unwanted": s.host + "/nothing:v1",
	}), `"spec"`, `"metadata":{"name":"nightly"},"spec"`, 1)))
	if err != nil {
		t.Fatal(err)
	}

	composed := mustCompose(t, &Build{Clients: s.clients, FromStream: &stream, Name: "1.0.0", Include: []string{"worker"}, Exclude: []string{"unwanted"}})
	if got, _ := composed.Images.PullSpec("worker"); got != worker || composed.Images.Annotations[annotationFromStream] != "nightly" {
		t.Errorf("got pull spec %s and annotations %v, want %s of the stream nightly", got, composed.Images.Annotations, worker)
	}
}

// The layer starts with the files that tools read first, and its files are read-only.
func TestLayerOfRelease(t *testing.T) {
	s := newFixture(t)
	canonical := s.pushRelease("releases:1.0.0", &Build{FromDir: newFolder(map[string]string{"0000_10_a_1.yaml": configMapManifest("a", "")}), Base: BaseNone, Name: "1.0.0"})
	var described imgspecv1.Manifest
	s.getFromRegistry("/v2/releases/manifests/"+digestFromReference(canonical), &described)
	if len(described.Layers) != 1 {
		t.Fatalf("got %d layers, want 1", len(described.Layers))
	}

	content, err := gzip.NewReader(bytes.NewReader(s.getFromRegistry("/v2/releases/blobs/"+described.Layers[0].Digest.String(), nil)))
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%o %s", header.Mode, header.Name))
	}

	want := []string{
		"755 release-manifests/", "444 release-manifests/image-references", "444 release-manifests/release-metadata",
		"755 manifests/", "444 release-manifests/0000_10_a_1.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	var config imgspecv1.Image
	s.getFromRegistry("/v2/releases/blobs/"+described.Config.Digest.String(), &config)
	if len(config.History) != 1 || config.History[0].Comment != "Release image for OpenShift" {
		t.Errorf("got history %v, want one entry of the release image", config.History)
	}
}

// An image whose files would be written outside of the directory is rejected.
func TestOpenHostile(t *testing.T) {
	s := newFixture(t)
	for want, header := range map[string]*tar.Header{
		"leads upwards":                         {Name: "manifests/../../etc/passwd", Typeflag: tar.TypeReg},
		"outside of /manifests":                 {Name: "manifests/link.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		"is neither a file":                     {Name: "release-manifests/device", Typeflag: tar.TypeChar},
		"at most 536870912 are accepted":        {Name: "manifests/huge.yaml", Typeflag: tar.TypeReg, Size: 1 << 40},
		"must be a regular file, and no symbol": {Name: "manifests/link.yaml", Typeflag: tar.TypeSymlink, Linkname: "other.yaml"},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, folder := range []string{"manifests/", "release-manifests/"} {
			if err := w.WriteHeader(&tar.Header{Name: folder, Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
				t.Fatal(err)
			}
		}

		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}

		if header.Size == 0 {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}

		s.pushLayer("hostile", archive.Bytes())
		if _, err := Open(t.Context(), s.client, s.host+"/hostile:v1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestOpenTampered(t *testing.T) {
	s := newFixture(t)
	canonical := s.pushRelease("releases:1.0.0", &Build{FromDir: newFolder(map[string]string{"a.yaml": configMapManifest("a", "")}), Base: BaseNone, Name: "1.0.0"})
	for name, part := range map[string]string{"the manifest": "/manifests/", "a blob": "/blobs/"} {
		s.change = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
				return false
			}
			_, _ = w.Write([]byte("{}"))
			return true
		}
		_, err := Open(t.Context(), image.NewClient(image.Options{Timeouts: image.Timeouts{Backoff: time.Nanosecond}}), canonical)
		if err == nil {
			t.Errorf("%s is modified: got no error, want one", name)
		}
		if !errors.Is(err, ErrTampered) || !strings.HasPrefix(err.Error(), "the release image failed content verification and may have been tampered with: ") {
			t.Errorf("%s: got error %v, want %v", name, err, ErrTampered)
		}
	}

	s.change = nil
	if _, err := Open(t.Context(), s.client, s.pushImage("x:v1", nil, map[string]string{"/release-manifests/a.yaml": "x"})); err == nil || !strings.Contains(err.Error(), "manifests: ") {
		t.Errorf("got error %v, want one with \"manifests:\"", err)
	}
}
