package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestRemovalWithoutSurprise requests a package that does not exist, and then removes an
// extension with custom resources of users. Custom resources are only deleted on request.
// Otherwise they are kept for the next installation.
func TestRemovalWithoutSurprise(t *testing.T) {
	f := newFixture(t, false)
	catalog := f.Registry + "/removal/catalog:latest"
	f.runStep("Mainstay runs", f.startMainstay)
	f.runStep("a catalog is served", func(ctx context.Context) error {
		if err := f.publishCatalog(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := f.Mainstay(ctx, "catalog", "add", "removal", "--image", catalog, "--wait")
		return err
	})

	f.runStep("a misspelt package creates nothing, and is suggested", func(ctx context.Context) error {
		_, err := f.Mainstay(ctx, "extension", "install", "hello-oprator", "--namespace", "hello", "--create-namespace", "--wait")
		if err == nil || !strings.Contains(err.Error(), "did you mean hello-operator?") {
			return fmt.Errorf("got %w, want a suggestion", err)
		}
		return errors.Join(f.checkOutput(ctx, "", "get", "clusterextensions", "-o", "name"), f.checkOutput(ctx, "", "get", "namespace", "hello", "-o", "name", "--ignore-not-found"))
	})

	install := func(ctx context.Context) error {
		_, err := f.Mainstay(ctx, "extension", "install", "hello-operator", "--namespace", "hello", "--create-namespace", "--wait", "--timeout", stateTimeout.String())
		return err
	}
	f.runStep("the extension is installed", install)
	f.runStep("a user creates a Greeting", func(ctx context.Context) error { return f.Apply(ctx, greeting) })
	f.runStep("the extension reports what its deletion would delete", func(ctx context.Context) error {
		return f.waitFor(ctx, func(ctx context.Context) error {
			return f.checkOutput(ctx, "True CRDsOwned", "get", "clusterextension", "hello-operator", "-o",
				`jsonpath={.status.conditions[?(@.type=="DeletesCRDs")].status} {.status.conditions[?(@.type=="DeletesCRDs")].reason}`)
		})
	})

	f.runStep("it is not uninstalled unless the user decides about the Greeting", func(ctx context.Context) error {
		_, err := f.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--wait")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "greetings.hello.example.com (1)") {
			return fmt.Errorf("got %w, want exit code 3 and the Greeting", err)
		}
		return f.waitForInstalled(ctx, "hello-operator")
	})

	remains := func(want string) func(context.Context) error {
		return func(ctx context.Context) error {
			err := f.checkOutput(ctx, "", "get", "clusterextensions,deployments.apps", "-n", "hello", "-o", "name")
			return errors.Join(err, f.checkOutput(ctx, want, "get", "crds", "-l", ownedSelector, "-o", "name"))
		}
	}

	f.runStep("it is uninstalled, and its CRD kept", func(ctx context.Context) error {
		if _, err := f.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--keep-crds", "--wait", "--timeout", stateTimeout.String()); err != nil {
			return err
		}
		return remains("customresourcedefinition.apiextensions.k8s.io/greetings.hello.example.com\n")(ctx)
	})

	greetingExists := func(ctx context.Context) error {
		out, err := f.Kubectl(ctx, "get", "greetings.hello.example.com", "-A", "-o", "name")
		if err == nil && !strings.HasPrefix(out, "greeting.hello.example.com/") {
			err = fmt.Errorf("got no Greeting: %q", out)
		}
		return err
	}

	f.runStep("the Greeting exists", greetingExists)
	f.runStep("the extension is installed again, and takes the CRD over", install)
	f.runStep("the Greeting still exists", greetingExists)
	f.runStep("it is uninstalled with the Greeting", func(ctx context.Context) error {
		if _, err := f.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--delete-custom-resources", "--wait", "--timeout", stateTimeout.String()); err != nil {
			return err
		}
		return remains("")(ctx)
	})
}
