package opm_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cli/opm"
)

// Errors of invalid command lines.
func TestMistakes(t *testing.T) {
	for name, line := range map[string]string{
		"unknown-command":       "rendr",
		"unknown-alpha":         "alpha nothing",
		"unknown-list":          "alpha list nothing",
		"unknown-flag":          "validate --nope catalog",
		"no-argument":           "validate",
		"two-arguments":         "validate one two",
		"render-nothing":        "render",
		"use-http-and-skip-tls": "render --use-http --skip-tls testdata/catalog",
		"verify-and-skip-tls":   "render --skip-tls-verify --skip-tls testdata/catalog",
		"use-http-and-verify":   "render --skip-tls-verify --use-http testdata/catalog",
		"extract-no-name":       "alpha bundle extract",
		"unknown-shell":         "completion fishy",
		"similar-flag":          "render testdata/catalog --migrate-levl all",
		"boolean-argument":      "index rm -o kettle -f quay.io/example/index:v1 --permissive false",
		"wrong-boolean":         "render testdata/catalog --use-http=maybe",
		"wrong-output":          "render testdata/catalog -o xml",
		"wrong-migrate-level":   "render testdata/catalog --migrate-level latest",
		"wrong-mode":            "registry add --mode latest",
		"wrong-number":          "alpha bundle extract -c x --datalimit many",
		"wrong-port":            "serve testdata/catalog --port 70000",
		"wrong-timeout":         "registry serve --timeout-seconds soon",
		"wrong-label":           "generate dockerfile testdata/catalog --extra-labels team",
		"wrong-list":            `index rm -o ket"tle -f quay.io/example/index:v1`,
		"wrong-build-tool":      "index add -b quay.io/example/kettle:v1 --build-tool kaniko",
		"wrong-container-tool":  "index prune -p kettle -f quay.io/example/index:v1 --container-tool kaniko",
		"wrong-image-builder":   "alpha bundle build -d testdata/bundle -t quay.io/example/kettle:v1 -b kaniko",
		"wrong-kube-version":    "alpha bundle validate -t testdata/bundle --optional-values container-tools=docker,k8s-version=latest",
		"empty-kube-version":    "alpha bundle validate -t testdata/bundle --optional-values k8s-version=",
		"root-ca-and-skip":      "alpha bundle unpack quay.io/example/kettle:v1 --root-ca ca.pem --skip-tls-verify",
		"unknown-help":          "help rendr",
		"wrong-template-type":   "alpha render-template semverr testdata/catalog",
	} {
		t.Run(name, func(t *testing.T) { check(t, "mistakes/"+name, run(t, line)) })
	}
}

// Alpha commands are hidden unless $HELP_ALPHA is true.
func TestHelpAlpha(t *testing.T) {
	for _, value := range []string{"", "yes", "true"} {
		t.Setenv("HELP_ALPHA", value)
		shown := value == "true"
		if got := strings.Contains(mustRun(t, "--help"), "alpha"); got != shown {
			t.Errorf("HELP_ALPHA=%q: got alpha in the help: %v", value, got)
		}
		if got := strings.Contains(mustRun(t, "render", "--help"), "--alpha-"); got != shown {
			t.Errorf("HELP_ALPHA=%q: got alpha flags in the help of render: %v", value, got)
		}
	}
}

// A command group without a subcommand prints its help, and so does the program.
func TestGroupsShowHelp(t *testing.T) {
	for _, line := range []string{"", "alpha", "alpha list", "alpha bundle", "alpha convert-template", "generate", "index", "registry"} {
		r := run(t, line)
		if r.code != 0 || !strings.Contains(r.out, "Usage:\n  opm "+line) {
			t.Errorf("%v", r)
		}
	}
}

func TestVersion(t *testing.T) {
	out := mustRun(t, "version", "whatever")
	if !strings.HasPrefix(out, `Version: version.Version{OpmVersion:"`) || strings.Count(out, "\n") != 1 {
		t.Errorf("version: %q", out)
	}
}

// Scripts depend on the commands and flags of upstream opm.
func TestCommandsAndFlags(t *testing.T) {
	for path, flags := range listFlags {
		tls := " skip-tls skip-tls-verify use-http"
		if path == "alpha bundle unpack" {
			tls = " skip-tls/s skip-tls-verify use-http"
		}

		cmd, rest, err := opm.NewCommand(opm.Options{}).Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			t.Errorf("opm %s: %v %v", path, err, rest)
			continue
		}

		for flag := range strings.FieldsSeq(flags + tls) {
			name, short, _ := strings.Cut(flag, "/")
			checkFlag(t, cmd, name, short)
		}
	}
}

func checkFlag(t *testing.T, cmd *cobra.Command, name, short string) {
	t.Helper()
	flag := cmd.Flags().Lookup(name)
	if flag == nil {
		flag = cmd.InheritedFlags().Lookup(name)
	}

	switch {
	case flag == nil:
		t.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
	case flag.Shorthand != short:
		t.Errorf("%s: got the short form of --%s: %q, want %q", cmd.CommandPath(), name, flag.Shorthand, short)
	}
}

// listFlags returns the flags of each command with their shorthands.
var listFlags = map[string]string{
	"render":                             "output/o migrate migrate-level alpha-image-ref-template image-ref-template",
	"validate":                           "output/o",
	"serve":                              "port/p cache-dir cache-only cache-enforce-integrity termination-log/t pprof-addr pprof-capture-profiles debug",
	"migrate":                            "output/o migrate-level",
	"init":                               "default-channel/c icon/i description/d output/o",
	"generate dockerfile":                "base-image/i builder-image/b binary-image extra-labels/l push archive oci-layout",
	"version":                            "",
	"alpha list packages":                "",
	"alpha list channels":                "",
	"alpha list bundles":                 "",
	"alpha render-graph":                 "minimum-edge package-name/p draw-v0-semantics",
	"alpha render-template":              "output/o migrate-level",
	"alpha convert-template basic":       "output/o",
	"alpha convert-template substitutes": "output/o",
	"alpha bundle generate":              "directory/d package/p channels/c default/e output-dir/u base-image",
	"alpha bundle build":                 "directory/d package/p channels/c default/e output-dir/u base-image tag/t image-builder/b overwrite/o push archive oci-layout",
	"alpha bundle validate":              "tag/t image-builder/b optional-validators/o optional-values list-optional",
	"alpha bundle unpack":                "out/o root-ca/c skip-validation/v debug/d",
	"alpha bundle extract":               "configmapname/c namespace/n manifestsdir/m datalimit/l gzip/z kubeconfig/k debug",
	"index add":                          "bundles/b from-index/f tag/t binary-image/i out-dockerfile/d generate mode permissive pull-tool/p build-tool/u container-tool/c overwrite-latest enable-alpha debug push archive oci-layout",
	"index rm":                           "operators/o from-index/f tag/t binary-image/i out-dockerfile/d generate permissive pull-tool/p build-tool/u container-tool/c debug",
	"index prune":                        "packages/p from-index/f container-tool/c tag/t binary-image/i out-dockerfile/d generate permissive",
	"index prune-stranded":               "from-index/f container-tool/c tag/t binary-image/i out-dockerfile/d generate",
	"index export":                       "index/i package xpackage/o download-folder/f container-tool/c",
	"index deprecatetruncate":            "bundles/b from-index/f allow-package-removal permissive tag/t binary-image/i out-dockerfile/d generate pull-tool/p build-tool/u container-tool/c",
	"registry add":                       "database/d bundle-images/b mode permissive ca-file container-tool/c overwrite-latest enable-alpha",
	"registry rm":                        "database/d packages/o permissive",
	"registry prune":                     "database/d packages/p permissive",
	"registry prune-stranded":            "database/d",
	"registry deprecatetruncate":         "database/d bundle-images/b permissive allow-package-removal",
	"registry serve":                     "database/d port/p termination-log/t skip-migrate timeout-seconds",
}
