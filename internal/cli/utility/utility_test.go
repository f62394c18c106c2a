package utility_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/cli/utility"
)

// run runs a utility as a pod does.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := utility.NewCommandByName(args[0])
	if cmd == nil {
		t.Fatalf("got no utility %s", args[0])
	}

	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args[1:])
	err := cmd.ExecuteContext(t.Context())

	return out.String(), err
}

func TestOtherNamesAreNoUtilities(t *testing.T) {
	for _, name := range []string{"mainstay", "mainstay-1.2.0", "opm", ""} {
		if utility.NewCommandByName(name) != nil {
			t.Errorf("%q is a utility", name)
		}
	}
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "cpb"), filepath.Join(dir, "copy")
	if err := os.WriteFile(from, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}

	out, err := run(t, "cp", "-Rv", from, to)
	if err != nil || out != from+" -> "+to+"\n" {
		t.Errorf("got output %q, error %v", out, err)
	}
	if text, err := os.ReadFile(to); string(text) != "#!" {
		t.Errorf("got the copy %q, error %v", text, err)
	}
}

func TestCopyContent(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"configs", "cache"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "file"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	at := func(name string) string { return filepath.Join(dir, name) }
	if out, err := run(t, "copy-content", "--catalog.from="+at("configs"), "--catalog.to="+at("to/catalog"), "--cache.from="+at("cache"), "--cache.to="+at("to/cache")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	for name, want := range map[string]string{"to/catalog/file": "configs", "to/cache/file": "cache"} {
		if text, err := os.ReadFile(at(name)); string(text) != want {
			t.Errorf("%s has %q: %v", name, text, err)
		}
	}

	for wanted, args := range map[string][]string{
		"must be set together":      {"copy-content", "--catalog.from=x", "--catalog.to=y", "--cache.from=z"},
		`"catalog.to" not set`:      {"copy-content", "--catalog.from=x"},
		"accepts 1 arg":             {"cpb"},
		"accepts 2 arg":             {"cp", "x"},
		"no such file or directory": {"copy-content", "--catalog.from=" + at("nothing"), "--catalog.to=" + at("else")},
	} {
		if _, err := run(t, args...); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
