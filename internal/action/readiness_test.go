package action

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestReadiness(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {generation: 2}\nspec: {replicas: 2}\n"
	cases := map[string]struct {
		object string
		// want is what it lacks; "" when it is ready.
		want string
	}{
		"a kind without a status":     {object: "apiVersion: v1\nkind: ConfigMap"},
		"being deleted":               {"apiVersion: v1\nkind: ConfigMap\nmetadata: {deletionTimestamp: 2026-01-01T00:00:00Z}", "being deleted"},
		"a deployment, new":           {deployment, "0 of 2 replicas are updated"},
		"a deployment, not seen":      {deployment + "status: {observedGeneration: 1, updatedReplicas: 2, availableReplicas: 2}", "has not seen the latest change"},
		"a deployment, rolling":       {deployment + "status: {observedGeneration: 2, updatedReplicas: 2, availableReplicas: 1}", "1 of 2 replicas are available"},
		"a deployment, unsure":        {deployment + "status: {observedGeneration: 2, updatedReplicas: 2, availableReplicas: 2}", "Available is not reported yet"},
		"a deployment, ready":         {object: deployment + "status: {observedGeneration: 2, updatedReplicas: 2, availableReplicas: 2, conditions: [{type: Available, status: 'True'}]}"},
		"a stateful set of one":       {"apiVersion: apps/v1\nkind: StatefulSet\nstatus: {updatedReplicas: 1}", "0 of 1 replicas are available"},
		"a CRD, refused":              {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nstatus: {conditions: [{type: Established, status: 'False', reason: NotAccepted, message: taken}]}", "Established is False (NotAccepted): taken"},
		"a CRD, unknown":              {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nstatus: {conditions: [{type: Established, status: Unknown}]}", "Established is Unknown"},
		"another kind that says no":   {"apiVersion: a/v1\nkind: B\nstatus: {conditions: [{type: Ready, status: 'False', reason: Nope}]}", "Ready is False (Nope)"},
		"another kind, unsure":        {object: "apiVersion: a/v1\nkind: B\nstatus: {conditions: [{type: Ready, status: Unknown}]}"},
		"conditions that are no list": {object: "apiVersion: a/v1\nkind: B\nstatus: {conditions: 3}"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			data, err := yaml.YAMLToJSON([]byte(c.object + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			if err := u.UnmarshalJSON(data); err != nil {
				t.Fatal(err)
			}
			ready, lacks := readiness(u)
			if ready != (c.want == "") || !strings.Contains(lacks, c.want) || ready && lacks != "" {
				t.Errorf("ready %v, lacks %q", ready, lacks)
			}
		})
	}
}
