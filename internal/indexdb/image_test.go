package indexdb

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

func TestImageSpec(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
	spec, err := ImageSpec(d.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DatabaseInImage("x", spec.Labels); err != nil || got != "/database/index.db" {
		t.Errorf("got database path %q (error %v), want /database/index.db", got, err)
	}

	content, err := os.ReadFile(d.path)
	if err != nil {
		t.Fatal(err)
	}
	if file := spec.Layers[0].Files[0]; file.Path != DatabasePath || string(file.Content) != string(content) {
		t.Errorf("got file %s of %d bytes in the layer, want the database at %s", file.Path, len(file.Content), DatabasePath)
	}
	if len(spec.Entrypoint) > 0 {
		t.Errorf("got entrypoint %q of an image without a program, want none", spec.Entrypoint)
	}
	if _, err := image.Build(spec); err != nil {
		t.Error(err)
	}

	spec, err = ImageSpec(d.path, []byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(spec.Entrypoint, spec.Cmd...), " "); got != "/bin/opm registry serve --database /database/index.db" {
		t.Errorf("got command %s, want opm registry serve with the database", got)
	}
	if file := spec.Layers[0].Files[0]; file.Path != "/bin/opm" || !file.Executable {
		t.Errorf("got program %+v, want the executable /bin/opm", file)
	}
	if _, err := image.Build(spec); err != nil {
		t.Error(err)
	}

	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ImageSpec(other, nil); !errors.Is(err, ErrNotDatabase) {
		t.Errorf("got error %v, want %v", err, ErrNotDatabase)
	}
}

func TestDatabaseInImage(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		err    string
	}{
		"no label":             {nil, "index image x missing label operators.operatorframework.io.index.database.v1"},
		"a file-based catalog": {map[string]string{image.LabelConfigs: "/configs"}, "only support sqlite-based catalogs"},
	} {
		if _, err := DatabaseInImage("x", c.labels); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got error %v, want %s", name, err, c.err)
		}
	}
}

func TestDockerfile(t *testing.T) {
	text, err := Dockerfile("", "database/index.db")
	if err != nil {
		t.Fatal(err)
	}

	golden.Check(t, "index.Dockerfile", []byte(text))
	for _, image := range []string{"a b", "a\nRUN x", `a"`} {
		if _, err := Dockerfile(image, "x"); err == nil {
			t.Errorf("image %q: got no error, want one", image)
		}
	}

	if text, err := Dockerfile("other", "x"); err != nil || !strings.HasPrefix(text, "FROM other\n") {
		t.Errorf("got Dockerfile %q (error %v), want it based on other", text, err)
	}
}
