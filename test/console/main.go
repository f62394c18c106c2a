// Command e2e-console tests the web console in a browser, on an embedded cluster with simulated nodes. It starts the
// cluster, OLM v1 and OLM Classic, and `mainstay run console`, and runs the specs of web/e2e with Debian's Chromium.
//
// `make e2e-console` builds and runs it. With --update, it writes the pictures of docs/console.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

func main() {
	update := flag.Bool("update", false, "write the pictures of the pages to docs/console")
	keep := flag.Bool("keep", false, "leave everything running until it is interrupted, instead of running the specs")
	data := flag.String("bundles", "", "folder of <package>/<version>/ folders of real bundles")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &options{update: *update, keep: *keep, bundles: *data, specs: flag.Args()})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ne2e-console:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	update, keep bool
	bundles      string
	// specs are the names of specs. Without any, all run.
	specs []string
}

// chromium is the browser of Debian.
const chromium = "/usr/bin/chromium"

func run(ctx context.Context, o *options) (err error) {
	if _, err := os.Stat(chromium); err != nil && os.Getenv("MAINSTAY_REQUIRE_ENV") == "" && !o.keep {
		fmt.Println("e2e-console: skipped, because there is no", chromium)
		return nil
	}

	dir, err := os.MkdirTemp("", "mainstay-e2e-console-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	s := &site{dir: dir, bundles: o.bundles}
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	for _, step := range []struct {
		what string
		do   func(context.Context) (string, error)
	}{
		{"A real Kubernetes, with a registry, starts", s.startCluster},
		{"OLM v1 and OLM Classic start", s.startServers},
		{"Catalogs are added", s.addCatalogs},
		{"hello-operator is installed with OLM v1, and waits for approval with OLM Classic", s.installOperators},
		{"Users are created: an administrator, one with a namespace, and one without rights", s.createUsers},
		{"The console starts", s.startConsole},
	} {
		if err := steps.Do(ctx, step.what, step.do); err != nil {
			return err
		}
	}

	if o.keep {
		fmt.Printf("\nThe console is open at %s. Sign in as an administrator with the token\n\n%s\n\nCtrl+C ends it all.\n", s.Address, s.Tokens["admin"])
		<-ctx.Done()
		return nil
	}
	return s.runSpecs(ctx, o)
}

// runSpecs runs the specs of web/e2e one after the other, because some of them disturb the API server.
func (s *site) runSpecs(ctx context.Context, o *options) error {
	settings, err := json.Marshal(s)
	if err != nil {
		return err
	}

	specs := []string{"e2e/*.spec.ts"}
	if len(o.specs) > 0 {
		specs = nil
		for _, name := range o.specs {
			specs = append(specs, "e2e/"+strings.TrimSuffix(name, ".spec.ts")+".spec.ts")
		}
	}

	args := append([]string{"--test", "--test-concurrency=1", "--test-reporter=spec"}, specs...)
	cmd := exec.CommandContext(ctx, filepath.Join("node_modules", ".bin", "node"), args...)
	cmd.Dir = "web"
	cmd.Env = append(os.Environ(), "CONSOLE_E2E="+string(settings), "NODE_NO_WARNINGS=1")
	if o.update {
		cmd.Env = append(cmd.Env, "CONSOLE_E2E_UPDATE=1")
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the specs failed: %w\nThe end of the console's log:\n%s", err, s.logEnd())
	}

	if !o.update {
		return nil
	}
	return shrinkPictures(filepath.Join("docs", "console"))
}

// logEnd returns the end of the console's log.
func (s *site) logEnd() string {
	if s.console == nil {
		return ""
	}
	return s.console.LogEnd()
}
