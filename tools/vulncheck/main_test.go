package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	startDatabase := func(status int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/index/db.json" {
				t.Errorf("got a request for %s, want /index/db.json", r.URL.Path)
			}
			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}

	noServer := httptest.NewServer(nil)
	noServer.Close()

	tests := map[string]struct {
		db     string
		script string // the script that replaces govulncheck
		record string
		err    string
	}{
		"no vulnerability": {
			db: startDatabase(http.StatusOK), script: "echo No vulnerabilities found.", record: "No vulnerabilities found.\n",
		},
		"a vulnerability": {
			db: startDatabase(http.StatusOK), script: "echo GO-2026-0001; exit 3", record: "GO-2026-0001\n",
			err: "module own: it has known vulnerabilities (see ",
		},
		"the check fails": {
			db: startDatabase(http.StatusOK), script: "echo no packages >&2; exit 1", record: "no packages\n",
			err: "module own: the check failed: exit status 1",
		},
		"a missing copy on disk": {
			db: "file:///nowhere", script: `echo "$4 is not there"; exit 1`, record: "file:///nowhere is not there\n",
			err: "the check failed",
		},
		"no server": {
			db: noServer.URL, script: "echo not asked; exit 3",
			record: "skipped: the database of vulnerabilities cannot be reached, so nothing was checked (",
		},
		"a server that refuses access": {
			db: startDatabase(http.StatusForbidden), script: "echo not asked; exit 3",
			record: "skipped: the database of vulnerabilities cannot be reached, so nothing was checked (127.0.0.1:",
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir, to := t.TempDir(), filepath.Join(t.TempDir(), "records")
			govulncheck := filepath.Join(dir, "govulncheck")
			for file, content := range map[string]string{
				govulncheck:                  "#!/bin/sh\n" + test.script + "\n",
				filepath.Join(dir, "go.mod"): "// comment\nmodule example.com/own\n",
			} {
				if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
					t.Fatal(err)
				}
			}

			var out bytes.Buffer

			err := checker{govulncheck: govulncheck, db: test.db, to: to, out: &out}.checkModules(t.Context(), []string{dir})
			if got := fmt.Sprint(err); (err != nil) != (test.err != "") || !strings.Contains(got, test.err) && err != nil {
				t.Errorf("got %v, want an error with %q", err, test.err)
			}

			record, err := os.ReadFile(filepath.Join(to, "own.txt"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(record), test.record) {
				t.Errorf("got the record %q, want it to begin with %q", record, test.record)
			}
			if want := "own: " + strings.TrimSpace(string(record)) + "\n"; out.String() != want {
				t.Errorf("got the output %q, want %q", &out, want)
			}
		})
	}
}

func TestNoModule(t *testing.T) {
	dir := t.TempDir()
	c := checker{db: "file:///nowhere", to: t.TempDir(), out: &bytes.Buffer{}}
	if err := c.checkModules(t.Context(), []string{dir}); err == nil || !strings.Contains(err.Error(), "go.mod") {
		t.Errorf("got %v, want an error about go.mod", err)
	}
}
