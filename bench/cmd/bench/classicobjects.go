package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	controller "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// measureClassicObjects measures how long a client needs that only creates the objects of as many operators as
// measureClassicNamespace installs: those of the bundles, what the install strategies contain, and the final status of
// each ClusterServiceVersion. There is no OLM, so that this is the share of the API server.
func measureClassicObjects(ctx context.Context, dir string, _ int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	home := filepath.Join(dir, "objects")
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	c, err := startClassicControlPlane(ctx, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stopAll()) }()

	// The first operator makes the API server ready for the kinds.
	plain := &plainInstaller{client: c.client, namespace: "bench"}
	first := operatorWord(namespaceFleetSize)
	err = errors.Join(c.createNamespaces(ctx, plain.namespace), plain.createOperator(ctx, first), plain.waitForEstablished(ctx, first))
	if err != nil {
		return err
	}

	var words []string
	for i := range namespaceFleetSize {
		words = append(words, operatorWord(i))
	}

	sleepContext(ctx, idleSettleTime)
	began := time.Now()
	err = forEach(ctx, words, plain.createOperator)
	if err == nil {
		err = forEach(ctx, words, plain.waitForEstablished)
	}
	if err != nil {
		return err
	}

	what := fmt.Sprintf("objects of %d operators, created by a client without OLM", namespaceFleetSize)
	fmt.Printf("%-62s %10.2f s\n", what, secondsSince(began))
	return nil
}

// plainInstaller creates the objects of operators in a namespace, as a client without OLM.
type plainInstaller struct {
	client    controller.Client
	namespace string
}

// createOperator creates the objects of the sample operator under another name.
func (p *plainInstaller) createOperator(ctx context.Context, word string) error {
	manifests, err := readOperatorManifests(word)
	if err != nil {
		return err
	}

	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(manifest, &object.Object); err != nil {
			return err
		}
		if object.GetKind() != "CustomResourceDefinition" {
			object.SetNamespace(p.namespace)
		}
		if err := p.client.Create(ctx, object); err != nil {
			return err
		}
		if object.GetKind() == v1alpha1.ClusterServiceVersionKind {
			if err := p.createInstallStrategy(ctx, manifest); err != nil {
				return err
			}
		}
	}

	return nil
}

// createInstallStrategy creates the accounts, roles and Deployments of a ClusterServiceVersion that exists, and sets its
// status.
func (p *plainInstaller) createInstallStrategy(ctx context.Context, manifest []byte) error {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := yaml.Unmarshal(manifest, csv); err != nil {
		return err
	}

	strategy := csv.Spec.InstallStrategy.StrategySpec
	for _, permission := range strategy.Permissions {
		name := permission.ServiceAccountName
		err := errors.Join(
			p.createObject(ctx, "v1", "ServiceAccount", name, nil),
			p.createObject(ctx, "rbac.authorization.k8s.io/v1", "Role", name, map[string]any{"rules": permission.Rules}),
			p.createObject(ctx, "rbac.authorization.k8s.io/v1", "RoleBinding", name, map[string]any{
				"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": p.namespace}},
			}))
		if err != nil {
			return err
		}
	}

	for _, deployment := range strategy.DeploymentSpecs {
		if err := p.createObject(ctx, "apps/v1", "Deployment", deployment.Name, map[string]any{"spec": deployment.Spec}); err != nil {
			return err
		}
	}

	if err := p.client.Get(ctx, controller.ObjectKey{Namespace: p.namespace, Name: csv.Name}, csv); err != nil {
		return err
	}
	csv.Status.Phase, csv.Status.Reason = v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful
	return p.client.Status().Update(ctx, csv)
}

// createObject creates an object with the given fields besides its type and metadata.
func (p *plainInstaller) createObject(ctx context.Context, version, kind, name string, fields map[string]any) error {
	content := maps.Clone(fields)
	if content == nil {
		content = map[string]any{}
	}
	content["apiVersion"], content["kind"] = version, kind
	content["metadata"] = map[string]any{"namespace": p.namespace, "name": name}
	text, err := yaml.Marshal(content)
	if err != nil {
		return err
	}

	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &object.Object); err != nil {
		return err
	}
	return p.client.Create(ctx, object)
}

// waitForEstablished waits until the CRD of an operator is served.
func (p *plainInstaller) waitForEstablished(ctx context.Context, word string) error {
	return pollUntil(ctx, func(ctx context.Context) (bool, error) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := p.client.Get(ctx, controller.ObjectKey{Name: "greetings." + word + ".example.com"}, crd); err != nil {
			return false, err
		}
		return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), nil
	})
}

// readOperatorManifests returns the manifests of the sample operator under another name.
func readOperatorManifests(word string) ([][]byte, error) {
	from := filepath.Join("examples", "bundles", "hello-operator", "1.0.0", "manifests")
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("there are no manifests in %s", from))
	}

	var manifests [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, []byte(strings.ReplaceAll(string(text), "hello", word)))
	}

	return manifests, nil
}
