package realnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newLedger returns a ledger over settings in a folder.
func newLedger(t *testing.T, settings map[string]string) ledger {
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

	return ledger{file: filepath.Join(t.TempDir(), "ledger.json"), root: root}
}

func (l ledger) expect(t *testing.T, when, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(l.root, name))
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("%s: %s is %q, error %v; want %s", when, name, got, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheLastClusterRestoresTheSettings(t *testing.T) {
	ledger := newLedger(t, map[string]string{forwarding: "0", "kernel/panic": "1"})
	must(t, ledger.borrow("one"))
	must(t, setSetting(ledger.root, forwarding, "1"))
	must(t, ledger.borrow("one")) // again, after its supervisor was killed
	must(t, ledger.borrow("two"))
	must(t, setSetting(ledger.root, "kernel/panic", "10"))

	must(t, ledger.giveBack("one"))
	ledger.expect(t, "one of two has given back", forwarding, "1")
	must(t, ledger.giveBack("one"))
	ledger.expect(t, "and once more", forwarding, "1")
	must(t, ledger.giveBack("stranger"))
	ledger.expect(t, "and one that never borrowed", forwarding, "1")

	must(t, ledger.giveBack("two"))
	ledger.expect(t, "all have given back", forwarding, "0")
	ledger.expect(t, "all have given back", "kernel/panic", "1")
	if _, err := os.Stat(ledger.file); !os.IsNotExist(err) {
		t.Errorf("the ledger is left: %v", err)
	}

	must(t, ledger.giveBack("two"))
}
