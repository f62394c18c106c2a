package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// TestMistakes runs wrong command lines while no cluster is configured. Each error names the mistake: the flag, the
// value, the accepted values, and where to read more. The last case shows the error of a correct command line.
func TestMistakes(t *testing.T) {
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("NODE_NAME", "")

	const (
		duration  = "a duration that is not negative, such as 30s, 5m or 1h30m"
		namespace = "the name of a namespace: lowercase letters, digits and -, at most 63 characters"
		versions  = `a version or a version range, such as "1.4.0", "1.4.x" or ">=1.4, <2"`
	)

	for _, test := range []struct{ line, want string }{
		// Commands and arguments.
		{"extenson list", `unknown command "extenson" for "mainstay", did you mean "extension"?` + seeHelp("")},
		{"extension lst", `unknown command "lst" for "mainstay extension", did you mean "list"?` + seeHelp("extension")},
		{"run catalgd", `unknown component "catalgd", did you mean "catalogd"? 'mainstay run --help' lists the components` + "\n"},
		{"help extenson", `unknown command "extenson" for "mainstay", did you mean "extension"?` + "\nWhat to do: run 'mainstay --help', which lists the commands.\n"},
		{"help foo", `unknown command "foo" for "mainstay"` + "\nWhat to do: run 'mainstay --help', which lists the commands.\n"},
		{"help extension lst", `unknown command "lst" for "mainstay extension", did you mean "list"?` + "\nWhat to do: run 'mainstay extension --help', which lists the commands.\n"},
		{"run catalogd now", `unexpected argument "now"` + seeHelp("run catalogd")},
		{"console 8080", `unexpected argument "8080"` + seeHelp("console")},
		{"migrate catalogs a", `unexpected argument "a"` + seeHelp("migrate catalogs")},
		{"subscription list a", `unexpected argument "a"` + seeHelp("subscription list")},
		{"extension install", "PACKAGE is missing" + seeHelp("extension install")},
		{"extension uninstall", "NAME is missing" + seeHelp("extension uninstall")},
		{"extension status ''", "NAME is empty" + seeHelp("extension status")},
		{"catalog render", "REF is missing" + seeHelp("catalog render")},
		{"catalog validate a b", `unexpected argument "b"` + seeHelp("catalog validate")},
		{"catalog add x", `required flag(s) "image" not set` + seeHelp("catalog add")},
		{"catalog add x --image --wait", "flag needs an argument: --image; its value cannot be the flag --wait" + seeHelp("catalog add")},
		{"extension install x --wait false", `unexpected argument "false"` + "\nWhat to do: set a flag to false with =, as in --wait=false.\n"},

		// Names of flags.
		{"extension install x --verson 1.0.0", `unknown flag: --verson, did you mean "--version"?` + seeHelp("extension install")},
		{"extension install x -version 1.0.0", `unknown shorthand flag: 'v' in -version, did you mean "--version"?` + seeHelp("extension install")},
		{"extension list --watch", "unknown flag: --watch" + seeHelp("extension list")},
		{"extension uninstall x --keep-crds --delete-custom-resources", "--delete-custom-resources and --keep-crds exclude each other; give one of them" + seeHelp("extension uninstall")},

		// Values of flags.
		{"extension install x --version nonsense", invalid("nonsense", "--version", versions, "extension install")},
		{"extension plan x --version >>1", invalid(">>1", "--version", versions, "extension plan")},
		{"extension upgrade x --catalog-selector a=b=c", invalid("a=b=c", "--catalog-selector", "a label selector in the syntax of kubectl, such as 'key=value,other in (a,b)'", "extension upgrade")},
		{"extension install x --progress-deadline-minutes 5", invalid("5", "--progress-deadline-minutes", "0, or a number of minutes from 10 to 720", "extension install")},
		{"extension install x --timeout abc", invalid("abc", "--timeout", duration, "extension install")},
		{"extension install x --check-timeout=-1s", invalid("-1s", "--check-timeout", duration, "extension install")},
		{"extension install x --check=maybe", invalid("maybe", "--check", "true or false", "extension install")},
		{"extension rollback x --to-revision two", invalid("two", "--to-revision", "the number of a revision, such as 2", "extension rollback")},
		{"extension status x -o foo", invalid("foo", "-o, --output", "one of json|yaml", "extension status")},
		{"catalog add x --image i --poll-interval 90s", invalid("90s", "--poll-interval", "a duration of whole minutes, at least 1m, or 0 for never", "catalog add")},
		{"catalog add x --image i --label team", invalid("team", "--label", "KEY=VALUE, or several of them separated by commas", "catalog add")},
		{"catalog add x --image i --priority high", invalid("high", "--priority", "a whole number from -2147483648 to 2147483647", "catalog add")},
		{"cluster status --details disks", invalid("disks", "--details", "one of none, all, nodes, health, operators", "cluster status")},
		{"install --with classics", invalid("classics", "--with", "classic or console, or both separated by a comma", "install")},
		{"install --feature-gates X", invalid("X", "--feature-gates", "NAME=true or NAME=false, or several of them separated by commas", "install")},
		{"install --pull-secret pull", invalid("pull", "--pull-secret", "the namespace and the name of a Secret, as NAMESPACE/NAME", "install")},
		{"install --default-catalogs", "installation: default catalogs require OLM Classic\nWhat to do: add --with classic.\n"},
		{"extension upgrade x", `clusterextension "x": nothing to change` + "\nWhat to do: specify --version, --channel, --catalog-selector, --self-certified or --crd-upgrade-safety; updates within the current choice happen automatically.\n"},
		{"extension install x --namespace Tea", invalid("Tea", "-n, --namespace", namespace, "extension install")},
		{"subscription install x --watch-namespace a,B", invalid("a,B", "--watch-namespace", namespace, "subscription install")},
		{"rbac generate x --version nonsense", invalid("nonsense", "--version", versions, "rbac generate")},
		{"console --port 70000", invalid("70000", "--port", "a whole number from 0 to 65535", "console")},

		// Servers.
		{"release info localhost:1/r:v1 -o jsonpath={", `parsing JSONPath "{": unclosed action` + seeHelp("release info")},
		{"release info localhost:1/r:v1 -o template={{.metadata", "parsing the template: template: output:1: unclosed action" + seeHelp("release info")},
		{"run catalogd --feature-gates X", `invalid argument "X" for "--feature-gates" flag: "X" is not NAME=true or NAME=false` + seeHelp("run catalogd")},
		{"run catalogd --catalogs-size-limit big", invalid("big", "--catalogs-size-limit", "a size greater than zero, for example 3584Mi", "run catalogd")},
		{"run catalogd --metrics-bind-address 7443", `--metrics-bind-address: "7443" must be HOST:PORT or :PORT, such as localhost:8443 or :8443` + "\n"},
		{"run catalogd --pull-secret pull", `--pull-secret: "pull" must be the namespace and the name of a Secret, as NAMESPACE/NAME` + "\n"},
		{"run operator-controller --require-service-account --ignore-service-account", "--require-service-account and --ignore-service-account exclude each other; give one of them\n"},
		{"run all --catalog-serving pod", `--catalog-serving: "pod" must be pods or inline` + "\n"},
		{"run all --package-server-address localhost", `--package-server-address: "localhost" must be an IP address of this machine that the API server reaches, not a loopback or link-local one; 0 disables package-server` + "\n"},
		{"run package-server --tls-min-version 1.3", `--tls-min-version: "1.3" must be one of VersionTLS12, VersionTLS13` + "\n"},
		{"run cluster-version-operator --retrieval pod", `--retrieval: "pod" must be registry or job` + "\n"},
		{"run machine-config-daemon --root /", "--node: the name of the node is required: set --node or NODE_NAME\n"},
		{"run update-service --releases r --scan-interval=-1s", "--scan-interval: -1s is negative\n"},
		{"run configmap-server -c c -n n --port http", `--port: "http" must be a port from 0 to 65535` + "\n"},
		{"run console --oidc-issuer-url https://i --oidc-client-id c --external-url http://c", `--external-url: "http://c" must be an https URL without a path, because the identity provider sends users back to it` + "\n"},
		{"run console --config-dir " + writeSetting(t, "session-lifetime", "long"), "--config-dir: session-lifetime: " + invalid("long", "--session-lifetime", "a duration, such as 30s, 5m or 1h30m", "run console")},
		{"run console --config-dir " + writeSetting(t, "max-sessions", "1e3"), "--config-dir: max-sessions: " + invalid("1e3", "--max-sessions", "a whole number", "run console")},
		{"run catalogd --interval 1s", "unknown flag: --interval" + seeHelp("run catalogd")},

		{"extension install x --version 1.x", "kubeconfig: no cluster is configured\nWhat to do: specify the file with --kubeconfig or $KUBECONFIG, and a context with --context.\n"},
	} {
		t.Run(test.line, func(t *testing.T) {
			root := newCommandForName("mainstay")
			var out, errs bytes.Buffer
			root.SetOut(&out)
			root.SetErr(&errs)
			root.SetArgs(splitWords(test.line))
			code := terminal.Execute(t.Context(), root)
			if diff := cmp.Diff("Error: "+test.want, errs.String()); diff != "" {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
			if code != 1 || out.Len() > 0 {
				t.Errorf("got exit code %d and standard output %q, want 1 and none", code, out.String())
			}
		})
	}
}

// writeSetting returns a folder with a file that has the name of a flag.
func writeSetting(t *testing.T, flag, value string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, flag), []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// splitWords returns the words of a command line. The word ” is empty.
func splitWords(line string) []string {
	words := strings.Fields(line)
	for i := range words {
		if words[i] == "''" {
			words[i] = ""
		}
	}
	return words
}

// seeHelp returns the end of an error that refers to the help of a command.
func seeHelp(command string) string {
	return "\nRun '" + strings.TrimSpace("mainstay "+command) + " --help' for usage.\n"
}

// invalid returns the error for a value that a flag of a command does not accept.
func invalid(value, flag, accepted, command string) string {
	return `invalid argument "` + value + `" for "` + flag + `" flag: must be ` + accepted + seeHelp(command)
}
