package realnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newTestSettingsStore returns a store over settings in a folder.
func newTestSettingsStore(t *testing.T, settings map[string]string) settingsStore {
	t.Helper()
	root := t.TempDir()
	for name, value := range settings {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return settingsStore{file: filepath.Join(t.TempDir(), "store.json"), root: root}
}

func (s settingsStore) requireSetting(t *testing.T, when, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("%s: got %s = %q and error %v, want %s", when, name, got, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLastClusterRestoresSettings(t *testing.T) {
	store := newTestSettingsStore(t, map[string]string{ipForwardSetting: "0", "kernel/panic": "1"})
	must(t, store.acquireSettings("one"))
	must(t, writeSetting(store.root, ipForwardSetting, "1"))
	must(t, store.acquireSettings("one")) // The second call is that after its supervisor was killed.
	must(t, store.acquireSettings("two"))
	must(t, writeSetting(store.root, "kernel/panic", "10"))

	must(t, store.releaseSettings("one"))
	store.requireSetting(t, "one of two clusters has released the settings", ipForwardSetting, "1")
	must(t, store.releaseSettings("one"))
	store.requireSetting(t, "it has released them twice", ipForwardSetting, "1")
	must(t, store.releaseSettings("other"))
	store.requireSetting(t, "another cluster has released them", ipForwardSetting, "1")

	must(t, store.releaseSettings("two"))
	store.requireSetting(t, "both clusters have released the settings", ipForwardSetting, "0")
	store.requireSetting(t, "both clusters have released the settings", "kernel/panic", "1")
	if _, err := os.Stat(store.file); !os.IsNotExist(err) {
		t.Errorf("got error %v for the file of the store, want that it does not exist", err)
	}

	must(t, store.releaseSettings("two"))
}
