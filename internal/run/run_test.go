package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The documentation lists each server and each flag.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "servers.md"))
	if err != nil {
		t.Fatal(err)
	}

	for _, cmd := range NewCommand("test").Commands() {
		if !strings.Contains(string(page), "`mainstay run "+cmd.Name()+"`") {
			t.Errorf("docs/servers.md does not name the server %s", cmd.Name())
		}
		if cmd.Example == "" || cmd.Long == "" {
			t.Errorf("the help of %s has no example or no text", cmd.Name())
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name != "help" && !strings.Contains(string(page), "`--"+flag.Name+"`") {
				t.Errorf("docs/servers.md does not name --%s of %s", flag.Name, cmd.Name())
			}
		})
	}

	for name := range knownFeatures {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/servers.md does not name the feature %s", name)
		}
	}
}

func TestFeatureGates(t *testing.T) {
	for _, tc := range []struct{ value, want, err string }{
		{value: "SyntheticPermissions=true", want: "SyntheticPermissions=true"},
		{value: "SyntheticPermissions=false, BoxcutterRuntime=true", want: "BoxcutterRuntime=true,SyntheticPermissions=false"},
		{value: ",SyntheticPermissions=true,, ", want: "SyntheticPermissions=true"},
		{value: "SyntheticPermissions", err: "is not NAME=true or NAME=false"},
		{value: "SyntheticPermissions=maybe", err: "is not NAME=true or NAME=false"},
		{value: "Misspelt=true", err: `unknown feature "Misspelt"`},
	} {
		gates := featureGates{}
		err := gates.Set(tc.value)
		if got := gates.String(); tc.err == "" && (err != nil || got != tc.want) {
			t.Errorf("%q: got %q (error %v), want %q", tc.value, got, err, tc.want)
		}
		if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%q: got error %v, want one with %q", tc.value, err, tc.err)
		}
	}
}

// TestFeatureGatesAreRepeated passes one gate per argument, as an installation does.
func TestFeatureGatesAreRepeated(t *testing.T) {
	gates := featureGates{}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.Var(gates, "feature-gates", "")
	err := flags.Parse([]string{"--feature-gates=DeploymentConfig=true", "--feature-gates=PreflightPermissions=false", "--feature-gates=BoxcutterRuntime=true"})
	if want := "BoxcutterRuntime=true,DeploymentConfig=true,PreflightPermissions=false"; err != nil || gates.String() != want {
		t.Errorf("got %q (error %v), want %q", gates.String(), err, want)
	}
}

func TestLocalAddress(t *testing.T) {
	for _, tc := range []struct{ listen, want, err string }{
		{listen: ":8443", want: "localhost:8443"},
		{listen: "0.0.0.0:8443", want: "localhost:8443"},
		{listen: "[::]:8443", want: "localhost:8443"},
		{listen: "127.0.0.1:1234", want: "127.0.0.1:1234"},
		{listen: "127.0.0.1:0", err: "a port is required"},
		{listen: "8443", err: "--catalogs-server-addr"},
	} {
		got, err := localAddress(tc.listen)
		if got != tc.want || (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%q: got the address %q (error %v), want %q (%s)", tc.listen, got, err, tc.want, tc.err)
		}
	}
}
