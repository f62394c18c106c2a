package releaseimage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// pushTestRelease pushes a release with two images, one of them for two platforms.
func pushTestRelease(t *testing.T, s *fixture) string {
	t.Helper()
	var both []*image.Built
	for _, architecture := range []string{"amd64", "s390x"} {
		built, err := image.Build(image.Spec{Architecture: architecture, Layers: []image.Layer{{Files: []image.File{{Path: "/arch", Content: []byte(architecture)}}}}})
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, built)
	}

	multi, err := s.client.Push(t.Context(), s.host+"/parts/multi:v1", nil, both...)
	if err != nil {
		t.Fatal(err)
	}

	single := s.pushImage("parts/single:v1", nil, map[string]string{"/single": "1"})
	return s.pushRelease("releases:1.0.0", &Build{
		FromDir: newFolder(map[string]string{"a.yaml": configMapManifest("a", multi+" "+single), "image-references": imageReferencesJSON(map[string]string{"multi": multi, "single": single})}),
		Name:    "1.0.0+x", Base: BaseNone,
	})
}

func planForRelease(t *testing.T, s *fixture, canonical string) Plan {
	t.Helper()
	opened, err := Open(t.Context(), s.client, canonical)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	plan := NewPlan(opened)
	return plan
}

func planTags(plan Plan) []string {
	found := []string{plan.Release.Tag}
	for _, image := range plan.Images {
		found = append(found, image.Tag)
	}
	return found
}

func TestMirror(t *testing.T) {
	source, target := newFixture(t), newFixture(t)
	canonical := pushTestRelease(t, source)
	digest, err := signature.ParseDigest(digestFromReference(canonical))
	if err != nil {
		t.Fatal(err)
	}
	attachments := Attachments{Client: source.client, Repository: source.host + "/releases"}
	for _, text := range []string{"first", "second"} {
		if err := attachments.Attach(t.Context(), digest, signature.Attachment{Payload: []byte(text), Signature: []byte("of " + text)}); err != nil {
			t.Fatal(err)
		}
	}
	plan := planForRelease(t, source, canonical)
	if err := plan.FindSignatures(t.Context(), source.client); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1.0.0_x-x86_64", "1.0.0_x-x86_64-multi", "1.0.0_x-x86_64-single"}, planTags(plan)); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	dir := t.TempDir()
	var saved atomic.Int32
	if err := Save(t.Context(), source.clients, plan, dir, func(Copied) { saved.Add(1) }); err != nil {
		t.Fatal(err)
	}
	if saved.Load() != 4 {
		t.Errorf("got %d saved images, want 4", saved.Load())
	}
	read, err := LoadPlan(dir, "")
	if diff := cmp.Diff(plan, read); err != nil || diff != "" {
		t.Errorf("plan (-want +got): %v\n%s", err, diff)
	}
	direct := Target{Repository: target.host + "/direct"}
	restored := Target{Repository: target.host + "/restored/${component}", Release: target.host + "/restored:update"}
	if err := direct.Copy(t.Context(), func(_, _ string) *image.Client { return target.client }, plan, nil); err != nil {
		t.Fatal(err)
	}
	if err := restored.Restore(t.Context(), target.clients, dir, read, nil); err != nil {
		t.Fatal(err)
	}
	for _, to := range []Target{direct, restored} {
		for _, found := range to.imagesForClusters(plan) {
			canonical, err := target.client.Resolve(t.Context(), to.ReferenceFor(found))
			if err != nil || digestFromReference(canonical) != digestFromReference(found.Source) {
				t.Errorf("%s: got %s (error %v), want %s", to.ReferenceFor(found), canonical, err, found.Source)
			}
		}
	}
	for _, repository := range []string{"/direct", "/restored"} {
		var found []string
		for made, err := range (Attachments{Client: target.client, Repository: target.host + repository}).Attachments(t.Context(), digest) {
			if err != nil {
				t.Error(err)
			}
			found = append(found, string(made.Payload)+" "+string(made.Signature))
		}
		if diff := cmp.Diff([]string{"first of first", "second of second"}, found); diff != "" {
			t.Errorf("signatures in %s (-want +got):\n%s", repository, diff)
		}
	}
	want := []Mirror{
		{Source: source.host + "/parts/multi", Mirrors: []string{target.host + "/restored/multi"}},
		{Source: source.host + "/parts/single", Mirrors: []string{target.host + "/restored/single"}},
		{Source: source.host + "/releases", Mirrors: []string{target.host + "/restored"}},
	}
	if diff := cmp.Diff(want, restored.Mirrors(plan)); diff != "" {
		t.Errorf("mirrors (-want +got):\n%s", diff)
	}
	// The copies are sufficient: a program that knows the mirrors needs no other registry.
	var rules []image.MirrorRule
	for _, mirror := range direct.Mirrors(plan) {
		rules = append(rules, image.MirrorRule{Source: mirror.Source, Blocked: true, Mirrors: []image.Mirror{{Location: mirror.Mirrors[0], Only: image.DigestOnly}}})
	}
	offline := image.NewClient(image.Options{Mirrors: func() []image.MirrorRule { return rules }})
	opened, err := Open(t.Context(), offline, canonical)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	for _, found := range opened.Payload.Images.Tags {
		if _, err := offline.Pull(t.Context(), found.PullSpec); err != nil {
			t.Error(err)
		}
	}
}

func TestMirrorFails(t *testing.T) {
	source, target := newFixture(t), newFixture(t)
	plan := planForRelease(t, source, pushTestRelease(t, source))
	missing := plan
	missing.Images = append(missing.Images[:1:1], Copied{Component: "gone", Source: source.host + "/gone@" + digestFromReference(plan.Release.Source), Tag: "1-gone"})
	to := Target{Repository: target.host + "/r"}
	err := to.Copy(t.Context(), func(_, _ string) *image.Client { return target.client }, missing, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "1-gone: copy image ") {
		t.Errorf("got error %v, want one with \"1-gone: copy image\"", err)
	}
	if _, err := target.client.Resolve(t.Context(), to.ReferenceFor(plan.Release)); err == nil {
		t.Error("got the release without one of its images, want no release")
	}

	dir := t.TempDir()
	if err := Save(t.Context(), source.clients, plan, dir, nil); err != nil {
		t.Fatal(err)
	}

	changed := plan
	changed.Release.Source = source.host + "/releases@sha256:" + strings.Repeat("0", 64)
	if err := to.Restore(t.Context(), target.clients, dir, changed, nil); err == nil || !strings.Contains(err.Error(), "it was modified") {
		t.Errorf("got error %v, want one with \"it was modified\"", err)
	}

	second := plan
	second.Version, second.Release.Tag = "2.0.0", "2.0.0-x86_64"
	if err := Save(t.Context(), source.clients, second, dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadPlan(dir, ""); !errors.Is(err, ErrSeveral) {
		t.Errorf("got error %v, want %v", err, ErrSeveral)
	}
	if got, err := LoadPlan(dir, "2.0.0"); err != nil || got.Version != "2.0.0" {
		t.Errorf("got version %v (error %v), want 2.0.0", got.Version, err)
	}
	if _, err := LoadPlan(dir, "3.0.0"); err == nil {
		t.Error("got no error for a release that does not exist, want one")
	}
	if err := os.WriteFile(filepath.Join(dir, "config", "release-x.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadPlan(dir, "1.0.0+x"); err == nil || !strings.Contains(err.Error(), "is not a tag") {
		t.Errorf("got error %v, want one with \"is not a tag\"", err)
	}
}

func TestTargets(t *testing.T) {
	for _, good := range []string{"registry.example.com/a", "localhost:5000/a/b", "localhost:5000/${component}"} {
		if err := (Target{Repository: good}).Check(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}

	for _, bad := range []Target{{Repository: "r/a:v1"}, {Repository: "r/a@sha256:x"}, {Repository: "a"}, {Repository: "r/a", Release: "r/b@sha256:x"}} {
		if bad.Check() == nil {
			t.Errorf("%v: got no error, want one", bad)
		}
	}
}

func TestTagArchitecture(t *testing.T) {
	for given, want := range map[string]string{"amd64": "x86_64", "arm64": "aarch64", "Multi": "multi", "s390x": "s390x"} {
		if got := TagArchitecture(given); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

// A valid plan names images by digest, with valid tags.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"version":"1.0.0","release":{"source":"a/b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","tag":"x"},"images":[]}`))
	f.Add([]byte(`{"version":"1","release":{},"images":[{"component":"a","tag":"../x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		plan, err := parsePlan(data)
		if err != nil {
			return
		}
		for _, found := range append(plan.Images, plan.Release) {
			if strings.ContainsAny(found.Tag+found.Component, "/:@ ") || !image.IsCanonical(found.Source) && !strings.Contains(found.Source, "@sha") {
				t.Errorf("got the invalid plan %+v accepted, want an error", found)
			}
		}
	})
}
