package content

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// fillEnv is an environment variable that makes the test binary fill a cache directory and exit.
const fillEnv = "MAINSTAY_TEST_FILL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fillEnv); dir != "" {
		c := quiet(dir)
		c.BuildOnly = true
		content, err := c.Open(context.Background(), Folder{Dir: os.Getenv(fillEnv + "_SOURCE")})
		if err == nil {
			err = content.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}

		os.Exit(0)
	}

	os.Exit(m.Run())
}

// Several processes can fill and read a directory at the same time, also while the catalog changes.
func TestProcessesShareADirectory(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	sources := []Folder{sampleSource(t), {Dir: t.TempDir()}}
	const each = 6
	ended := make(chan error)
	for _, source := range sources {
		for range each {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), fillEnv+"="+dir, fillEnv+"_SOURCE="+source.Dir)
			cmd.Stderr = os.Stderr
			go func() { ended <- cmd.Run() }()
		}
	}

	// This process reads and writes too, and always reads the content of its own source.
	for range 20 {
		for i, source := range sources {
			c := quiet(dir)
			c.Integrity = IgnoreIntegrity
			content, err := c.Open(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(content.packages), 2-2*i; got != want {
				t.Errorf("got %d packages, want %d", got, want)
			}
			if err := content.Close(); err != nil {
				t.Error(err)
			}
		}
	}

	for range each * len(sources) {
		if err := <-ended; err != nil {
			t.Errorf("got error %v of a process", err)
		}
	}

	entries, err := os.ReadDir(dir + "/" + Format)
	if err != nil || len(entries) != 1 {
		t.Errorf("got remaining files %v, error %v", entries, err)
	}

	fill(t, dir, sources[0])
	mustOpen(t, with(quiet(dir), func(c *Cache) { c.Integrity = EnforceIntegrity }), sources[0])
}
