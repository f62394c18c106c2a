package v1_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// Each case is a spec as YAML, which is sent to a real API server. refused is a part of the message, and
// empty if the spec is accepted.
func TestRules(t *testing.T) {
	cases := map[string]struct{ kind, spec, refused string }{
		"a number":                   {mcfgv1.MachineConfigPoolKind, "maxUnavailable: 3", ""},
		"zero":                       {mcfgv1.MachineConfigPoolKind, "maxUnavailable: 0", ""},
		"a negative number":          {mcfgv1.MachineConfigPoolKind, "maxUnavailable: -1", "must be a number of nodes"},
		"a percentage":               {mcfgv1.MachineConfigPoolKind, "maxUnavailable: 10%", ""},
		"all":                        {mcfgv1.MachineConfigPoolKind, "maxUnavailable: 100%", ""},
		"more than all":              {mcfgv1.MachineConfigPoolKind, "maxUnavailable: 101%", "must be a number of nodes"},
		"a word":                     {mcfgv1.MachineConfigPoolKind, "maxUnavailable: many", "must be a number of nodes"},
		"an empty pool":              {mcfgv1.MachineConfigPoolKind, "{}", ""},
		"image sets":                 {mcfgv1.MachineConfigPoolKind, "pinnedImageSets: [{name: a}, {name: b}]", ""},
		"an image set twice":         {mcfgv1.MachineConfigPoolKind, "pinnedImageSets: [{name: a}, {name: a}]", "Duplicate"},
		"an empty configuration":     {mcfgv1.MachineConfigKind, "{}", ""},
		"any Ignition configuration": {mcfgv1.MachineConfigKind, "config: {ignition: {version: 9}, x: [1]}", ""},
		"no Ignition":                {mcfgv1.MachineConfigKind, "config: null", ""},
		"Ignition as a string":       {mcfgv1.MachineConfigKind, "config: text", "must be of type object"},
		"a kernel":                   {mcfgv1.MachineConfigKind, "kernelType: 64k-pages", ""},
		"another kernel":             {mcfgv1.MachineConfigKind, "kernelType: fast", "Unsupported value"},
		"arguments":                  {mcfgv1.MachineConfigKind, "kernelArguments: [a, a]", ""},
		"no arguments":               {mcfgv1.MachineConfigKind, "kernelArguments: null", ""},
	}

	c := env.Client(t)
	for name, rule := range cases {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			if err := yaml.Unmarshal([]byte("spec: "+strings.ReplaceAll("\n"+rule.spec, "\n", "\n  ")), &object.Object); err != nil {
				t.Fatal(err)
			}

			object.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind(rule.kind))
			object.SetName("tried")
			err := c.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
			switch {
			case rule.refused == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case rule.refused != "" && (err == nil || !strings.Contains(err.Error(), rule.refused)):
				t.Errorf("got error %v, want one that contains %q", err, rule.refused)
			}
		})
	}
}

// The columns of `kubectl get`, in the order that users and scripts expect.
func TestColumns(t *testing.T) {
	c := env.Client(t, apiextensionsv1.AddToScheme)
	for name, want := range map[string]string{
		"machineconfigpools": "Config Updated Updating Degraded MachineCount ReadyMachineCount UpdatedMachineCount DegradedMachineCount Age",
		"machineconfigs":     "GeneratedByController IgnitionVersion Age",
	} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := c.Get(t.Context(), client.ObjectKey{Name: name + "." + mcfgv1.GroupVersion.Group}, &crd); err != nil {
			t.Fatal(err)
		}

		var columns []string
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			columns = append(columns, column.Name)
		}

		if got := strings.Join(columns, " "); got != want {
			t.Errorf("columns of %s: got %s, want %s", name, got, want)
		}
	}
}

// The names of fields must be those that existing manifests have.
func TestFieldNames(t *testing.T) {
	data, err := json.Marshal(mcfgv1.MachineConfigPoolStatus{})
	if err != nil {
		t.Fatal(err)
	}

	want := `{"configuration":{},"machineCount":0,"updatedMachineCount":0,"readyMachineCount":0,"unavailableMachineCount":0,"degradedMachineCount":0}`
	if string(data) != want {
		t.Errorf("an empty status: got %s, want %s", data, want)
	}
}
