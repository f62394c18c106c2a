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
			t.Errorf("%s is not in %s", want, text)
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
		t.Errorf("the daemon reads %q (%v), want %s", name, err, rendered.Name)
	}
	if _, err := FirstBootName([]byte("[]")); err == nil || !strings.Contains(err.Error(), AnnotationsFile) {
		t.Errorf("annotations that are a list: %v", err)
	}

	rendered.Spec.KernelArguments = []string{"init=/bin/sh"}
	if _, err := FirstBoot(rendered, UnknownVersion, nil); err == nil || !strings.Contains(err.Error(), "changed since it was rendered") {
		t.Errorf("a configuration that was changed is given: %v", err)
	}
}

// A machine is given the newest version that it reads, and never one that lacks what is used.
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
		for _, asked := range []int{UnknownVersion, 0, 1, 2, 3, 4, 5, 6, 10} {
			want := min(asked, lastMinor)
			if asked == UnknownVersion {
				want = needed
			}

			data, err := FirstBoot(rendered, asked, nil)
			var older *VersionError
			switch {
			case want < needed:
				if !errors.As(err, &older) || older.Needed != needed {
					t.Errorf("%s, asked for %d: %v, want one that says it needs %d", raw, asked, err, needed)
				}
			case err != nil:
				t.Errorf("%s, asked for %d: %v", raw, asked, err)
			case !strings.HasPrefix(string(data), `{"ignition":{"version":"`+versionName(want)+`"`):
				t.Errorf("%s, asked for %d: %.60s", raw, asked, data)
			}
		}
	}
}
