package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-dev/mainstay/internal/cli"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// command is a command line to run, with its input and the reactions to its output.
type command struct {
	line []string
	// in is the standard input.
	in string
	// interactive simulates a terminal on which the user answers with in.
	interactive bool
	// now is the clock. Nil means time.Now.
	now func() time.Time
	// on contains reactions to texts on standard error. With them, a test acts as the controllers while
	// the command waits.
	on []reaction
}

type reaction struct {
	text string
	do   func()
}

// watcher buffers the written text and runs the reactions.
type watcher struct {
	bytes.Buffer
	on []reaction
}

func (w *watcher) Write(data []byte) (int, error) {
	n, err := w.Buffer.Write(data)
	for len(w.on) > 0 && strings.Contains(w.String(), w.on[0].text) {
		next := w.on[0]
		w.on = w.on[1:]
		next.do()
	}
	return n, err
}

// run runs a command line in this process and returns a transcript: the command, its output, its standard error
// and its exit code.
func run(t testing.TB, c command) string {
	t.Helper()
	root := cli.NewCommand(cli.Options{Now: c.now, Interactive: func(*cobra.Command) bool { return c.interactive }})
	if c.line[0] == "opm" {
		root = opm.NewCommand(opm.Options{})
	}

	var out bytes.Buffer
	errors := &watcher{on: c.on}
	root.SetOut(&out)
	root.SetErr(errors)
	root.SetIn(strings.NewReader(c.in))
	root.SetArgs(c.line[1:])
	code := terminal.Execute(t.Context(), root)
	for _, missed := range errors.on {
		t.Errorf("%s: got no %q in the output:\n%s", strings.Join(c.line, " "), missed.text, errors)
	}

	var b strings.Builder
	fmt.Fprintf(&b, "$ %s\n%s", quote(c.line), out.String())
	if errors.Len() > 0 {
		fmt.Fprintf(&b, "--- stderr\n%s", errors.String())
	}
	if code != 0 {
		fmt.Fprintf(&b, "--- exit code %d\n", code)
	}

	return b.String()
}

func quote(line []string) string {
	var words []string
	for _, word := range line {
		if word == "" || strings.ContainsAny(word, " <>") {
			word = "'" + word + "'"
		}
		words = append(words, word)
	}

	return strings.Join(words, " ")
}

// scrubs replace values that differ between runs.
var scrubs = []struct{ pattern, with string }{
	{`sha256:[0-9a-f]{64}`, "sha256:DIGEST"},
	{`127\.0\.0\.1:\d+`, "REGISTRY"},
	{`"?uid"?: "?[0-9a-f-]{36}"?`, "uid: UID"},
	{`(resourceVersion"?): "[1-9]\d*"`, `$1: "N"`},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
	// Ages are table cells, so the width must not change.
	{`(?m)( {2,})\d+s( {2,}|$)`, "${1}AGE$2"},
}

func scrub(t testing.TB, text string) []byte {
	t.Helper()
	for _, s := range scrubs {
		text = regexp.MustCompile(s.pattern).ReplaceAllString(text, s.with)
	}

	for _, dir := range []string{os.TempDir()} {
		text = regexp.MustCompile(regexp.QuoteMeta(dir)+`/[^/\s"]+/\d+`).ReplaceAllString(text, "DIR")
	}
	return []byte(text)
}

// goldenCheck compares a transcript with a golden file.
func goldenCheck(t testing.TB, name, shown string) {
	t.Helper()
	golden.Check(t, name+".txt", scrub(t, shown))
}

// check runs a command line and compares the transcript with a golden file.
func check(t testing.TB, name string, c command) {
	t.Helper()
	goldenCheck(t, name, run(t, c))
}

func words(line string) []string { return strings.Fields(line) }

// kubeconfig writes a kubeconfig file for the API server of the test and sets $KUBECONFIG.
func kubeconfig(t *testing.T, config *rest.Config) {
	t.Helper()
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, env.WriteKubeconfig(t, config))
}

func TestMistakes(t *testing.T) {
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, filepath.Join(t.TempDir(), "none"))
	cases := map[string]string{
		"unknown-command":      "mainstay extenson list",
		"unknown-subcommand":   "mainstay extension lst",
		"missing-argument":     "mainstay extension install",
		"surplus-argument":     "mainstay catalog delete one two",
		"unknown-flag":         "mainstay catalog list --everything",
		"unknown-format":       "mainstay extension status x -o wide",
		"unknown-policy":       "mainstay extension install x --rollback Always",
		"missing-flag":         "mainstay catalog add x",
		"catalog-show-unknown": "mainstay catalog show teapot testdata/catalog",
		"bad-dry-run":          "mainstay install --dry-run=server",
		"no-cluster":           "mainstay extension list",
		"no-such-context":      "mainstay extension list --context nowhere",
		"build-to-nowhere":     "mainstay catalog build testdata/catalog",
		"bundles-to-nowhere":   "mainstay catalog build testdata/bundles --output x.tar",
		"build-not-there":      "mainstay catalog build testdata/nothing --push localhost:1/c:v1",
		"push-not-a-bundle":    "mainstay bundle push testdata/catalog localhost:1/b:v1",
		"bad-selector":         "mainstay extension install x --catalog-selector a=b=c --dry-run=client",
		"install-missing-file": "mainstay install --dry-run=client --registries-conf nothing.conf",
		"install-bad-secret":   "mainstay install --dry-run=client --pull-secret pull",
		"help":                 "mainstay --help",
		"rbac-nothing":         "mainstay rbac generate",
		"rbac-other-package":   "mainstay rbac generate teapot --bundle testdata/bundles/kettle/0.1.0",
		"rbac-no-bundle":       "mainstay rbac generate --bundle testdata/catalog",
		"rbac-no-package":      "mainstay rbac generate teapot --catalog ./testdata/catalog",
		"rbac-no-version":      "mainstay rbac generate kettle --catalog ./testdata/catalog --version >9",
		"rbac-two-sources":     "mainstay rbac generate kettle --bundle testdata/bundles/kettle/0.1.0 --version 1",
		"rbac-watch":           "mainstay rbac generate --bundle testdata/bundles/kettle/0.1.0 --watch-namespace garden",
		"rbac-no-cluster":      "mainstay rbac generate kettle",
	}

	for name, line := range cases {
		t.Run(name, func(t *testing.T) { check(t, "mistakes/"+name, command{line: words(line)}) })
	}
}

func TestFiles(t *testing.T) {
	cases := map[string]string{
		"opm-validate":            "opm validate testdata/catalog",
		"opm-validate-broken":     "opm validate testdata/broken",
		"opm-validate-file":       "opm validate testdata/catalog/kettle/catalog.yaml",
		"opm-validate-not-there":  "opm validate testdata/nothing",
		"catalog-validate-broken": "mainstay catalog validate testdata/broken",
		"opm-render-catalog":      "opm render testdata/catalog",
		"opm-render-bundle":       "opm render testdata/bundles/kettle/0.1.0 -o yaml",
		"opm-render-file":         "opm render testdata/catalog/kettle/catalog.yaml",
		"opm-render-nothing":      "opm render",
		"catalog-build-dry-run":   "mainstay catalog build testdata/bundles --push registry.example.com/catalog:v1 --dry-run -o yaml",
		"extension-dry-run":       "mainstay extension install kettle --create-namespace --namespace kitchen --version >=0.1 --channel stable --channel beta --service-account cook --watch-namespace kitchen --self-certified --catalog-selector team=tea --dry-run=client -o yaml",
		"extension-dry-run-rules": "mainstay extension install kettle --dependencies Install --rollback OnDeadline --progress-deadline-minutes 15 --access-roles Aggregated --dry-run=client -o yaml",
		"extension-dry-run-json":  "mainstay extension install kettle --dry-run=client -o json",
		"extension-dry-run-name":  "mainstay extension install kettle --name k --create-namespace --dry-run=client -o name",
		"install-dry-run-name":    "mainstay install --dry-run=client -o name",
		"rbac-generate":           "mainstay rbac generate --bundle testdata/bundles/kettle/0.1.0",
		"rbac-generate-json":      "mainstay rbac generate kettle --bundle testdata/bundles/kettle/0.1.0 --name k --namespace kitchen --service-account cook -o json",
		"rbac-generate-update":    "mainstay rbac generate --bundle testdata/bundles/kettle/0.2.0+mug --update-from testdata/bundles/kettle/0.1.0 --create-namespace",
		"rbac-generate-access":    "mainstay rbac generate --bundle ../../examples/bundles/hello-operator/1.0.0 --access-roles",
		"rbac-generate-certs":     "mainstay rbac generate --bundle ../../examples/bundles/hello-operator/1.2.0 --cert-manager",
		"rbac-generate-watch":     "mainstay rbac generate --bundle ../../examples/bundles/hello-operator/1.0.0 --namespace kitchen --watch-namespace garden -o name",
	}

	for name, line := range cases {
		t.Run(name, func(t *testing.T) { check(t, "files/"+name, command{line: words(line)}) })
	}
}

// A command that is interrupted fails with an error.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root := opm.NewCommand(opm.Options{})
	var errors bytes.Buffer
	root.SetErr(&errors)
	root.SetArgs(words("validate testdata/catalog"))
	if code := terminal.Execute(ctx, root); code != 1 || !strings.Contains(errors.String(), "context canceled") {
		t.Errorf("got exit code %d, errors: %s", code, errors.String())
	}
}
