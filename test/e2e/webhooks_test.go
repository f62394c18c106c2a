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

// webhooks sees the operator refuse, default and convert Greetings. Played pods do
// nothing of it.
func (j *journey) webhooks(ctx context.Context) error {
	if !j.real {
		return nil
	}

	const refusal = `spec.name: "nobody" cannot be greeted`
	err := j.eventually(ctx, func(ctx context.Context) error {
		err := j.Apply(ctx, nobody)
		if err == nil {
			return errors.New("nobody is greeted")
		}
		if !strings.Contains(err.Error(), refusal) {
			return fmt.Errorf("greeting nobody is refused for something else than %s: %w", refusal, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Made in the new version, defaulted and kept in the old one, read in both.
	if err := j.Apply(ctx, moon); err != nil {
		return err
	}
	if err := j.prints(ctx, "moon en", "get", "greetings.v1beta1.hello.example.com", "moon", "-o", "jsonpath={.spec.recipient} {.spec.language}"); err != nil {
		return err
	}

	return j.prints(ctx, "moon en", "get", "greetings.v1alpha1.hello.example.com", "moon", "-o", "jsonpath={.spec.name} {.spec.language}")
}

// publishUnsafe publishes a version 1.3.0 whose definition lost a field.
func (j *journey) publishUnsafe(ctx context.Context, catalog string) error {
	package120 := filepath.Join(j.dir, "bundles", "hello-operator", "1.2.0")
	package130 := filepath.Join(j.dir, "bundles", "hello-operator", "1.3.0")
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
	if _, err := j.push(ctx, "catalog", "build", filepath.Join(j.dir, "bundles"), "--push", catalog); err != nil {
		return err
	}

	_, err = j.Mainstay(ctx, "catalog", "refresh", "e2e")
	return err
}

func rewrite(file string, pairs ...string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			return fmt.Errorf("%s holds no %q", file, pairs[i])
		}
	}
	return os.WriteFile(file, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644)
}
