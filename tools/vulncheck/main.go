// Command vulncheck checks Go modules for known vulnerabilities. It runs govulncheck, which must be
// in the same folder as vulncheck, and writes the result to one file for each module.
//
// It exits with 1 if there is a vulnerability or a check failed. If the vulnerability database
// cannot be reached, it records that nothing was checked, and exits with 0, so that a machine
// without a network can build and test.
//
//	vulncheck --to bin/vulncheck . devcluster tools
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// foundVulnerabilities is the exit code of govulncheck if it found vulnerabilities.
const foundVulnerabilities = 3

// probeTimeout bounds the test whether the database can be reached.
const probeTimeout = 30 * time.Second

func main() {
	db := flag.String("db", "https://vuln.go.dev", "URL of the database of vulnerabilities; file:// for a copy on disk")
	to := flag.String("to", ".", "folder for the records")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: vulncheck [--db URL] [--to FOLDER] MODULE-FOLDER...")
		os.Exit(2)
	}

	self, err := os.Executable()
	if err == nil {
		c := checker{govulncheck: filepath.Join(filepath.Dir(self), "govulncheck"), db: *db, to: *to, out: os.Stdout}
		err = c.checkModules(context.Background(), flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(1)
	}
}

// checker checks modules and prints the result of each to out.
type checker struct {
	govulncheck string
	db          string
	to          string
	out         io.Writer
}

// checkModules checks the modules in the folders. It returns an error if one of them has a
// vulnerability or cannot be checked.
func (c checker) checkModules(ctx context.Context, dirs []string) error {
	if err := os.MkdirAll(c.to, 0o755); err != nil {
		return err
	}

	unreachable := probeDatabase(ctx, c.db)

	var failed []error
	for _, dir := range dirs {
		name, err := moduleName(dir)
		if err != nil {
			return err
		}

		record, err := c.checkModule(ctx, dir, unreachable)
		file := filepath.Join(c.to, name+".txt")
		if writeErr := os.WriteFile(file, record, 0o644); writeErr != nil {
			return writeErr
		}

		fmt.Fprintf(c.out, "%s: %s\n", name, bytes.TrimSpace(record))
		if err != nil {
			failed = append(failed, fmt.Errorf("module %s: %w (see %s)", name, err, file))
		}
	}

	return errors.Join(failed...)
}

// checkModule returns the record of the module in a folder. The error reports vulnerabilities, or
// why the check failed. unreachable is nil if the database can be reached. Otherwise, checkModule
// only records that nothing was checked.
func (c checker) checkModule(ctx context.Context, dir string, unreachable error) ([]byte, error) {
	if unreachable != nil {
		return fmt.Appendf(nil, "skipped: the database of vulnerabilities cannot be reached, so nothing was checked (%v)\n", unreachable), nil
	}

	command := exec.CommandContext(ctx, c.govulncheck, "-C", dir, "-db", c.db, "./...", "tool")
	record, err := command.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return record, nil
	case errors.As(err, &exit) && exit.ExitCode() == foundVulnerabilities:
		return record, errors.New("it has known vulnerabilities")
	default:
		return record, fmt.Errorf("the check failed: %w", err)
	}
}

// moduleName returns the last element of the path of the module in a folder.
func moduleName(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}

	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			return path[strings.LastIndex(path, "/")+1:], nil
		}
	}
	return "", fmt.Errorf("%s has no module directive", filepath.Join(dir, "go.mod"))
}

// probeDatabase returns why a database cannot be reached, or nil if it can. A database on disk
// always counts as reachable, so that govulncheck reports a wrong path as an error.
func probeDatabase(ctx context.Context, db string) error {
	address, err := url.Parse(db)
	if err != nil || (address.Scheme != "http" && address.Scheme != "https") {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("index", "db.json").String(), nil)
	if err != nil {
		return err
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // Only the status is used.
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", address.Host, resp.Status)
	}

	return nil
}
