package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// renderedOf returns the rendered configuration of an Ignition configuration.
func renderedOf(t *testing.T, raw string) *mcfgv1.MachineConfig {
	t.Helper()
	r, err := Render("worker", Base{}, []*mcfgv1.MachineConfig{mc("a", "worker", raw)})
	if err != nil {
		t.Fatal(err)
	}
	return &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}
}

func TestFirstBoot(t *testing.T) {
	rendered := renderedOf(t, file("/etc/a", "x"))
	data, err := FirstBoot(rendered, 2, map[string][]byte{"/etc/kubernetes/kubeconfig": []byte("k"), "/etc/a": []byte("never")})
	if err != nil {
		t.Fatal(err)
	}

	text := string(data)
	for _, want := range []string{`"version":"3.2.0"`, `{"path":"/etc/a","contents":{"source":"data:,x"}}`, `{"path":"/etc/kubernetes/kubeconfig","overwrite":true,"contents":{"source":"data:;base64,aw=="},"mode":384}`} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want it to contain %s", text, want)
		}
	}

	// The result contains only the files of the pool and the annotations.
	data, err = FirstBoot(rendered, UnknownVersion, nil)
	if err != nil {
		t.Fatal(err)
	}

	var c Ignition
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}

	var paths []string
	for _, f := range c.Storage.Files {
		paths = append(paths, f.Path)
	}

	if diff := cmp.Diff([]string{"/etc/a", AnnotationsFile}, paths); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	content, err := c.Storage.Files[1].Content()
	if err != nil {
		t.Fatal(err)
	}
	if name, err := FirstBootName(content); err != nil || name != rendered.Name {
		t.Errorf("got configuration name %q (error %v), want %s", name, err, rendered.Name)
	}
	if _, err := FirstBootName([]byte("[]")); err == nil || !strings.Contains(err.Error(), AnnotationsFile) {
		t.Errorf("annotations that are a list: got error %v, want one that names %s", err, AnnotationsFile)
	}

	rendered.Spec.KernelArguments = []string{"init=/bin/sh"}
	if _, err := FirstBoot(rendered, UnknownVersion, nil); err == nil || !strings.Contains(err.Error(), "changed since it was rendered") {
		t.Errorf("a changed configuration: got error %v, want that it was changed", err)
	}
}

// The server returns the latest version that the machine accepts, and an error if the configuration needs a later one.
func TestFirstBootVersions(t *testing.T) {
	for raw, needed := range map[string]int{
		file("/etc/a", "x"): 0,
		`{"ignition":{"version":"3.2.0","proxy":{"httpProxy":"a"}}}`:                     1,
		ignition(`"storage":{"filesystems":[{"device":"/dev/a","mountOptions":["x"]}]}`): 1,
		ignition(`"storage":{"files":[{"path":"/a","contents":{"source":"data:,x","verification":{"hash":"sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}}}]}`): 1,
		ignition(`"storage":{"luks":[{"name":"a"}]}`):                        2,
		ignition(`"passwd":{"users":[{"name":"a","shouldExist":false}]}`):    2,
		ignition(`"passwd":{"groups":[{"name":"a","shouldExist":false}]}`):   2,
		ignition(`"kernelArguments":{"shouldExist":["a"]}`):                  3,
		ignition(`"storage":{"luks":[{"name":"a","discard":true}]}`):         4,
		ignition(`"storage":{"files":[{"path":"/a","mode":2541}]}`):          4,
		ignition(`"storage":{"directories":[{"path":"/a","mode":1023}]}`):    4,
		ignition(`"storage":{"luks":[{"name":"a","cex":{"enabled":true}}]}`): 5,
	} {
		rendered := renderedOf(t, raw)
		for _, accepted := range []int{UnknownVersion, 0, 1, 2, 3, 4, 5, 6, 10} {
			want := min(accepted, lastMinor)
			if accepted == UnknownVersion {
				want = needed
			}

			data, err := FirstBoot(rendered, accepted, nil)
			var older *VersionError
			switch {
			case want < needed:
				if !errors.As(err, &older) || older.Needed != needed {
					t.Errorf("%s, accepted version %d: got error %v, want that it needs version %d", raw, accepted, err, needed)
				}
			case err != nil:
				t.Errorf("%s, accepted version %d: got error %v, want none", raw, accepted, err)
			case !strings.HasPrefix(string(data), `{"ignition":{"version":"`+versionName(want)+`"`):
				t.Errorf("%s, accepted version %d: got %.60s, want version %s", raw, accepted, data, versionName(want))
			}
		}
	}
}
