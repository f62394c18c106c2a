package release_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// FuzzParseFileName checks that a parsed name can be formatted again.
func FuzzParseFileName(f *testing.F) {
	for _, seed := range []string{"0000_03_config-operator_01_proxy.crd.yaml", "0000_50_a_b", "0000_007_A-1_.json", "a", "0000_99999999999999999999_a_b", "0000_10_a_b\n.yml"} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, name string) {
		got, ok := release.ParseFileName(name)
		if !ok {
			if got != (release.FileName{}) {
				t.Errorf("%q: got %+v of an invalid name, want none", name, got)
			}
			return
		}
		again, ok := release.ParseFileName(fmt.Sprintf("0000_%02d_%s_%s.yaml", got.Runlevel, got.Component, got.Name))
		if !ok || again != got || got.Runlevel < 0 || strings.Contains(got.Component, "_") {
			t.Errorf("%q: got %+v, and after formatting and parsing it again %v %+v, want the same", name, got, ok, again)
		}
	})
}

// FuzzLoad loads any manifest, with and without templates. Either all faults are returned, or
// each manifest is an object with a name and a place in the graph.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", configMapManifest("x"), configMapManifest("x") + "---\n" + configMapManifest("z"), "{{ .ReleaseImage }}", `{{ if eq .ClusterProfile "x" }}a{{ else }}b{{ end }}`, `{{ index .Images "etcd" }}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}} {}`, "{a: b}", "&a [*a]", "a: &a [b]\nb: *a\n", "- a\n---\nb\n--- \nc: d\n", "{{ and (or true) | not }}", "{{ $ }}{{ $.Images }}",
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := newPayloadFiles(nil)
		fsys["manifests/a.yaml"] = &fstest.MapFile{Data: data}
		fsys["release-manifests/a.yaml"] = &fstest.MapFile{Data: data}
		p, err := release.Load(fsys, release.Options{})
		if err != nil {
			var faults *release.Error
			if !errors.As(err, &faults) || len(faults.Faults) == 0 {
				t.Fatalf("got error %v, want a *release.Error", err)
			}
			return
		}

		for _, m := range p.Manifests {
			key := m.Key()
			if key.Kind == "" || key.Name == "" || m.Document < 1 || len(m.Raw) == 0 {
				t.Errorf("got manifest %s, document %d, %d bytes; want a kind, a name, a document and content", key, m.Document, len(m.Raw))
			}
			_, _ = release.Cluster{}.Excludes(m)
		}
	})
}

// FuzzParseMetadata checks that parsed and encoded metadata is parsed as the same value, and has
// the same encoding.
func FuzzParseMetadata(f *testing.F) {
	f.Add([]byte(goodMetadata))
	f.Add([]byte(`{"kind":"cincinnati-metadata-v0","version":"1.2.3-a+b","previous":["1.2.2"],"next":["2.0.0"],"metadata":{"url":"x","":"é"}}`))
	f.Add([]byte(`{"kind":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := release.ParseMetadata(data)
		if err != nil {
			return
		}

		written, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}

		again, err := release.ParseMetadata(written)
		if err != nil {
			t.Fatalf("%v: %s", err, written)
		}
		if rewritten, err := again.Encode(); err != nil || !bytes.Equal(rewritten, written) {
			t.Errorf("%v, -first +second:\n%s", err, cmp.Diff(string(written), string(rewritten)))
		}
	})
}

// FuzzParseImageReferences checks the same as FuzzParseMetadata.
func FuzzParseImageReferences(f *testing.F) {
	f.Add([]byte(goodImages))
	f.Add([]byte(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"1","creationTimestamp":"2026-02-03T04:05:06Z","annotations":{"a":"b"}},"spec":{"tags":[]}}`))
	f.Add([]byte(`{"spec":{"tags":[{}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		images, err := release.ParseImageReferences(data)
		if err != nil || images.CheckPinned() != nil {
			return
		}

		written, err := images.Encode()
		if err != nil {
			t.Fatal(err)
		}

		again, err := release.ParseImageReferences(written)
		if err != nil {
			t.Fatalf("%v: %s", err, written)
		}
		if rewritten, err := again.Encode(); err != nil || !bytes.Equal(rewritten, written) {
			t.Errorf("%v, -first +second:\n%s", err, cmp.Diff(string(written), string(rewritten)))
		}
	})
}

// FuzzParseImageStream checks that the images of an ImageStream have names and references, and
// can be encoded as image-references once they are named by digest.
func FuzzParseImageStream(f *testing.F) {
	f.Add([]byte(goodImages))
	f.Add([]byte(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"a"},"status":{"dockerImageRepository":"r","publicDockerImageRepository":"p","tags":[{"tag":"x","items":[{"dockerImageReference":"r@sha256:1"}]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		images, err := release.ParseImageStream(data)
		if err != nil {
			return
		}
		for i := range images.Tags {
			if images.Tags[i].PullSpec == "" {
				t.Errorf("got no pull spec of image %d: %+v, want one", i, images)
			}
			images.Tags[i].PullSpec = "registry.example/image@" + digest
		}
		if _, err := images.Encode(); err != nil {
			t.Errorf("%+v: %v", images, err)
		}
	})
}

// FuzzGraph runs any list in any mode with any number of workers. Each manifest is applied once,
// no level starts before the one below has ended, and a component is applied in order.
func FuzzGraph(f *testing.F) {
	f.Add([]byte("abcdefgh"), uint8(0), uint8(1), uint8(0))
	f.Add([]byte("zzaajjpp??"), uint8(1), uint8(16), uint8(3))
	f.Add([]byte("a1b2c3d4!\x00\xff"), uint8(2), uint8(2), uint8(9))
	f.Fuzz(func(t *testing.T, list []byte, mode, maxParallel, attempt uint8) {
		if len(list) > 100 {
			return
		}

		modes := []release.Mode{release.Updating, release.Initializing, release.Reconciling}
		g := release.NewGraph(newManifests(newFileNames(list)...), modes[int(mode)%len(modes)], int(attempt))
		var mu sync.Mutex
		var done []release.Task
		errs := g.Run(t.Context(), int(maxParallel), release.RunSerially(func(_ context.Context, task release.Task) error {
			mu.Lock()
			defer mu.Unlock()
			expectAllowed(t, modes[int(mode)%len(modes)], done, task)
			done = append(done, task)

			return nil
		}))

		numbers := map[int]bool{}
		for _, task := range done {
			numbers[task.Number] = true
		}

		if len(errs) > 0 || len(done) != len(list) || len(numbers) != len(list) {
			t.Errorf("got errors %v with %d applied manifests, %d different, want all %d", errs, len(done), len(numbers), len(list))
		}
	})
}

// newFileNames returns a file name for each byte: mostly of four levels and four components, but some
// that cannot be parsed, and some of Jobs.
func newFileNames(list []byte) []string {
	var names []string
	for i, b := range list {
		name := fmt.Sprintf("0000_%02d_c%d_%03d", b%4*10, b/4%4, i)
		switch b / 16 {
		case 0:
			name = fmt.Sprintf("unnamed_%03d", i)
		case 1:
			name += "!"
		}
		names = append(names, name)
	}

	return names
}

// expectAllowed checks whether a task may run after those that are done.
func expectAllowed(t *testing.T, mode release.Mode, done []release.Task, task release.Task) {
	name, named := task.Manifest.FileName()
	if isBarrier(task) && len(done) != task.Number-1 {
		t.Errorf("%s is applied after %d others", task.Manifest.File, len(done))
	}

	for _, other := range done {
		otherName, otherNamed := other.Manifest.FileName()
		switch {
		case other.Number > task.Number && isBarrier(other):
			t.Errorf("%s is applied after %s", task.Manifest.File, other.Manifest.File)
		case !named || !otherNamed:
		case other.Number > task.Number && name.Runlevel == otherName.Runlevel && name.Component == otherName.Component:
			t.Errorf("%s is applied after %s, of the same component", task.Manifest.File, other.Manifest.File)
		case mode == release.Updating && name.Runlevel < otherName.Runlevel && !slices.ContainsFunc(done, func(between release.Task) bool {
			return isBarrier(between) && other.Number <= between.Number && between.Number < task.Number
		}) && !isBarrier(task):
			t.Errorf("%s is applied after %s, of a higher level", task.Manifest.File, other.Manifest.File)
		}
	}
}

func isBarrier(task release.Task) bool {
	_, named := task.Manifest.FileName()
	return !named || task.Manifest.IsJob()
}
