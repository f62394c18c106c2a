package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	nobody = `
apiVersion: hello.example.com/v1alpha1
kind: Greeting
metadata: {name: nobody, namespace: default}
spec: {name: nobody}
`
	moon = `
apiVersion: hello.example.com/v1beta1
kind: Greeting
metadata: {name: moon, namespace: default}
spec: {recipient: moon}
`
)

// checkWebhooks checks that the operator rejects, defaults and converts Greetings. Simulated pods
// do not run webhooks.
func (f *fixture) checkWebhooks(ctx context.Context) error {
	if !f.realNode {
		return nil
	}

	const refusal = `spec.name: "nobody" cannot be greeted`
	err := f.waitFor(ctx, func(ctx context.Context) error {
		err := f.Apply(ctx, nobody)
		if err == nil {
			return errors.New("nobody is greeted")
		}
		if !strings.Contains(err.Error(), refusal) {
			return fmt.Errorf("creating an invalid Greeting: got error %w, want %s", err, refusal)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// The Greeting is created in the new version, defaulted and stored in the old one, and read
	// in both.
	if err := f.Apply(ctx, moon); err != nil {
		return err
	}
	if err := f.checkOutput(ctx, "moon en", "get", "greetings.v1beta1.hello.example.com", "moon", "-o", "jsonpath={.spec.recipient} {.spec.language}"); err != nil {
		return err
	}

	return f.checkOutput(ctx, "moon en", "get", "greetings.v1alpha1.hello.example.com", "moon", "-o", "jsonpath={.spec.name} {.spec.language}")
}

// publishUnsafeVersion publishes a version 1.3.0 whose CRD lost a field.
func (f *fixture) publishUnsafeVersion(ctx context.Context, catalog string) error {
	package120 := filepath.Join(f.dir, "bundles", "hello-operator", "1.2.0")
	package130 := filepath.Join(f.dir, "bundles", "hello-operator", "1.3.0")
	if err := os.CopyFS(package130, os.DirFS(package120)); err != nil {
		return err
	}

	manifests := filepath.Join(package130, "manifests")
	err := rewrite(filepath.Join(manifests, "hello-operator.clusterserviceversion.yaml"),
		"replaces: hello-operator.v1.1.0", "replaces: hello-operator.v1.2.0",
		"name: hello-operator.v1.2.0", "name: hello-operator.v1.3.0", "version: 1.2.0", "version: 1.3.0")
	if err != nil {
		return err
	}
	if err := rewrite(filepath.Join(manifests, "hello.example.com_greetings.yaml"), "language:", "tongue:"); err != nil {
		return err
	}
	if _, err := f.runWithRegistry(ctx, "catalog", "build", filepath.Join(f.dir, "bundles"), "--push", catalog); err != nil {
		return err
	}

	_, err = f.Mainstay(ctx, "catalog", "refresh", "e2e")
	return err
}

func rewrite(file string, pairs ...string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			return fmt.Errorf("%s does not contain %q", file, pairs[i])
		}
	}
	return os.WriteFile(file, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644)
}
