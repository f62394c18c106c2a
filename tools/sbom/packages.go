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

// listedPackage is a package in the output of go list.
type listedPackage struct {
	ImportPath string
	Imports    []string
	Standard   bool
	Module     *module
}

// module is a module in the output of go list.
type module struct {
	Path    string
	Version string
	Main    bool
	// Sum is the checksum of the module, as in go.sum.
	Sum string
	// Replace is the module that replaces this one, or nil.
	Replace *module
}

// resolveReplace returns the module that is actually built: the replacement, if there is one.
func (m *module) resolveReplace() *module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// listPackages returns all packages of the programs and tools of a module. It omits packages
// that only tests import.
func listPackages(ctx context.Context, dir string) ([]listedPackage, error) {
	out, err := runGo(ctx, dir, "list", "-deps", "-json=ImportPath,Imports,Standard,Module", "./...", "tool")
	if err != nil {
		return nil, err
	}

	var all []listedPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var next listedPackage
		err := decoder.Decode(&next)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode the output of go list: %w", err)
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

// runGo runs the go command in dir and returns its output. The error contains its error output.
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
