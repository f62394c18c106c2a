// Command vulncheck looks for known vulnerabilities in Go modules, by govulncheck, which
// has to lie in the folder that vulncheck lies in. What it found is written to a file for
// each module.
//
// It ends with 1 when there is a vulnerability or a check failed. Where the database of
// vulnerabilities cannot be reached, it records that nothing was checked, and ends with 0:
// a machine without a network can build and test.
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

// foundVulnerabilities is the exit code of govulncheck that tells of vulnerabilities.
const foundVulnerabilities = 3

// probeTimeout bounds the question whether the database can be reached.
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
		err = c.run(context.Background(), flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(1)
	}
}

// checker checks modules, and tells on out what became of each.
type checker struct {
	govulncheck string
	db          string
	to          string
	out         io.Writer
}

// run checks the modules in the folders. It returns an error when one of them has a
// vulnerability or cannot be checked.
func (c checker) run(ctx context.Context, dirs []string) error {
	if err := os.MkdirAll(c.to, 0o755); err != nil {
		return err
	}

	unreachable := probe(ctx, c.db)

	var failed []error
	for _, dir := range dirs {
		name, err := moduleName(dir)
		if err != nil {
			return err
		}

		record, err := c.check(ctx, dir, unreachable)
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

// check returns what is recorded about the module in a folder. The error tells of
// vulnerabilities, or why they could not be looked for.
func (c checker) check(ctx context.Context, dir string, unreachable error) ([]byte, error) {
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

// moduleName returns the last part of the path of the module in a folder.
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
	return "", fmt.Errorf("%s names no module", filepath.Join(dir, "go.mod"))
}

// probe returns why a database cannot be reached, nil when it can. A copy on disk is always
// reached: that it is not there is a mistake.
func probe(ctx context.Context, db string) error {
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
	defer func() { _ = resp.Body.Close() }() // Only its status counts.
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", address.Host, resp.Status)
	}

	return nil
}
