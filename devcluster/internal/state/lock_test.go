package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestLockIsHeldByOne(t *testing.T) {
	dir := newTestDir(t)
	if _, running, err := LockHolder(dir); running || err != nil {
		t.Fatalf("before the first run: got running %t, error %v", running, err)
	}

	lock, err := AcquireLock(dir)
	if err != nil {
		t.Fatal(err)
	}

	var locked *LockedError
	if _, err := AcquireLock(dir); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("got %v for a second supervisor, want a LockedError with process %d", err, os.Getpid())
	}
	if pid, running, err := LockHolder(dir); pid != os.Getpid() || !running || err != nil {
		t.Errorf("got holder %d, running %t, error %v; want this process", pid, running, err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, running, err := LockHolder(dir); running || err != nil {
		t.Errorf("after the release: got running %t, error %v", running, err)
	}

	if lock, err = AcquireLock(dir); err != nil {
		t.Errorf("after the release: got error %v, want none", err)
	} else if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

func TestResetKeepsForeignFiles(t *testing.T) {
	dir := newTestDir(t)
	if err := dir.WriteRecord(Record{Phase: Running}); err != nil {
		t.Fatal(err)
	}

	foreign := filepath.Join(string(dir), "thesis.tex")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dir.Reset(); err != nil {
		t.Fatal(err)
	}

	entries, err := os.ReadDir(string(dir))
	if err != nil || len(entries) != 1 || entries[0].Name() != "thesis.tex" {
		t.Errorf("got entries %v and error %v, want only thesis.tex", entries, err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	if err := dir.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(dir)); !os.IsNotExist(err) {
		t.Errorf("got error %v for the empty data directory, want that it does not exist", err)
	}
	if err := dir.Reset(); err != nil {
		t.Errorf("reset without a data directory: got error %v, want none", err)
	}
}
