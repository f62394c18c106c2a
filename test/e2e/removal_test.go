package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestRemovalWithoutSurprise asks for a package that nobody has, and then removes an extension
// whose users have custom resources: nothing is lost before somebody says so, and what was kept
// is there for the next installation.
func TestRemovalWithoutSurprise(t *testing.T) {
	j := start(t, false)
	catalog := j.Registry + "/removal/catalog:latest"
	j.step("Mainstay runs", j.runMainstay)
	j.step("a catalog is served", func(ctx context.Context) error {
		if err := j.publish(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := j.Mainstay(ctx, "catalog", "add", "removal", "--image", catalog, "--wait")
		return err
	})

	j.step("a misspelt package creates nothing, and is suggested", func(ctx context.Context) error {
		_, err := j.Mainstay(ctx, "extension", "install", "hello-oprator", "--namespace", "hello", "--create-namespace", "--wait")
		if err == nil || !strings.Contains(err.Error(), "did you mean hello-operator?") {
			return fmt.Errorf("got %w, want a suggestion", err)
		}
		return errors.Join(j.prints(ctx, "", "get", "clusterextensions", "-o", "name"), j.prints(ctx, "", "get", "namespace", "hello", "-o", "name", "--ignore-not-found"))
	})

	install := func(ctx context.Context) error {
		_, err := j.Mainstay(ctx, "extension", "install", "hello-operator", "--namespace", "hello", "--create-namespace", "--wait", "--timeout", limit.String())
		return err
	}
	j.step("the extension is installed", install)
	j.step("somebody has a Greeting", func(ctx context.Context) error { return j.Apply(ctx, greeting) })
	j.step("the extension says what its deletion would delete", func(ctx context.Context) error {
		return j.eventually(ctx, func(ctx context.Context) error {
			return j.prints(ctx, "True CRDsOwned", "get", "clusterextension", "hello-operator", "-o",
				`jsonpath={.status.conditions[?(@.type=="DeletesCRDs")].status} {.status.conditions[?(@.type=="DeletesCRDs")].reason}`)
		})
	})

	j.step("it is not uninstalled without a word about the Greeting", func(ctx context.Context) error {
		_, err := j.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--wait")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "greetings.hello.example.com (1)") {
			return fmt.Errorf("got %w, want exit code 3 and the Greeting", err)
		}
		return j.installed(ctx, "hello-operator")
	})

	remains := func(want string) func(context.Context) error {
		return func(ctx context.Context) error {
			err := j.prints(ctx, "", "get", "clusterextensions,deployments.apps", "-n", "hello", "-o", "name")
			return errors.Join(err, j.prints(ctx, want, "get", "crds", "-l", owned, "-o", "name"))
		}
	}

	j.step("it is uninstalled, and its CRD kept", func(ctx context.Context) error {
		if _, err := j.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--keep-crds", "--wait", "--timeout", limit.String()); err != nil {
			return err
		}
		return remains("customresourcedefinition.apiextensions.k8s.io/greetings.hello.example.com\n")(ctx)
	})

	greetingIsThere := func(ctx context.Context) error {
		out, err := j.Kubectl(ctx, "get", "greetings.hello.example.com", "-A", "-o", "name")
		if err == nil && !strings.HasPrefix(out, "greeting.hello.example.com/") {
			err = fmt.Errorf("there is no Greeting: %q", out)
		}
		return err
	}

	j.step("the Greeting is there", greetingIsThere)
	j.step("the extension is installed again, and takes the CRD over", install)
	j.step("the Greeting still is there", greetingIsThere)
	j.step("it is uninstalled with the Greeting", func(ctx context.Context) error {
		if _, err := j.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--delete-custom-resources", "--wait", "--timeout", limit.String()); err != nil {
			return err
		}
		return remains("")(ctx)
	})
}
