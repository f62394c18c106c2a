package main

import "testing"

const untrimmed = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: A root.
        properties:
          spec:
            description: A spec.
            properties:
              pods:
                description: A list.
                items:
                  description: An item.
                  properties:
                    template:
                      description: A template.
                      properties:
                        description:
                          description: A property of this name.
                          type: string
                        labels:
                          additionalProperties:
                            description: A value.
                            type: string
                          type: object
                        ports:
                          items:
                            description: A port.
                            type: integer
                          type: array
                      type: object
                  type: object
                type: array
            type: object
        type: object
`

const trimmed = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: A root.
        properties:
          spec:
            description: A spec.
            properties:
              pods:
                description: A list.
                items:
                  description: An item.
                  properties:
                    template:
                      description: A template.
                      properties:
                        description:
                          type: string
                        labels:
                          additionalProperties:
                            type: string
                          type: object
                        ports:
                          items:
                            type: integer
                          type: array
                      type: object
                  type: object
                type: array
            type: object
        type: object
`

func TestTrimCRD(t *testing.T) {
	got, err := trimCRD([]byte(untrimmed), []string{"spec.pods.template"})
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != trimmed {
		t.Errorf("got\n%s\nwant\n%s", got, trimmed)
	}
}

func TestTrimCRDWithoutProperty(t *testing.T) {
	for _, path := range []string{"spec.pods.spec", "status", "spec.pods.template.labels.name"} {
		_, err := trimCRD([]byte(untrimmed), []string{path})
		if want := "version v1 has no property " + path; err == nil || err.Error() != want {
			t.Errorf("%s: got error %v, want %q", path, err, want)
		}
	}
}
