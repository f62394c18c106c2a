package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// listed is a package as go list describes it.
type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
	Module     *module
}

// module is a module as go list describes it.
type module struct {
	Path    string
	Version string
	Main    bool
	// Sum is its checksum, as in go.sum.
	Sum string
	// Replace is what is built instead.
	Replace *module
}

// built returns the module whose code is built.
func (m *module) built() *module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// listPackages returns all packages that the programs and the tools of a module are built
// from. Packages that only tests import are not among them.
func listPackages(ctx context.Context, dir string) ([]listed, error) {
	out, err := runGo(ctx, dir, "list", "-deps", "-json=ImportPath,Imports,Standard,Module", "./...", "tool")
	if err != nil {
		return nil, err
	}

	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var next listed
		err := decoder.Decode(&next)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}

		all = append(all, next)
	}
}

// goVersion returns the version of the standard library, such as 1.26.0.
func goVersion(ctx context.Context, dir string) (string, error) {
	out, err := runGo(ctx, dir, "env", "GOVERSION")
	version, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(out)), "go"), " ")
	return version, err
}

func runGo(ctx context.Context, dir string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	var failed bytes.Buffer
	command.Stderr = &failed
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(failed.String()))
	}

	return out, nil
}
