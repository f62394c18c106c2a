package validate

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inspectFake returns options with an Inspect function for the known images.
func inspectFake(known map[string]Inspection) Options {
	return Options{Inspect: func(images []string) map[string]Inspection {
		found := map[string]Inspection{}
		for _, image := range images {
			if inspection, ok := known[image]; ok {
				found[image] = inspection
			}
		}
		return found
	}}
}

// platformsOf returns an inspection with platforms, each as OS and architecture.
func platformsOf(pairs ...string) Inspection {
	var i Inspection
	for pair := range slices.Chunk(pairs, 2) {
		i.Platforms = append(i.Platforms, Platform{OS: pair[0], Architecture: pair[1]})
	}
	return i
}

func TestMultiarch(t *testing.T) {
	const (
		name  = "multiarch"
		image = "registry.example/foo:v1"
		start = "(foo.v1.2.3) "
		nodes = "nodeSelector: {kubernetes.io/arch: amd64, kubernetes.io/os: linux}"
		asks  = " of its nodes: require "
	)

	affinity := func(expressions string) string {
		return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " + expressions + "}}}"
	}
	labels := func(text string) []string {
		return []string{"  name: foo.v1.2.3", "  name: foo.v1.2.3\n  labels: {" + text + "}"}
	}
	both := "operatorframework.io/arch.amd64: supported, operatorframework.io/arch.arm64: supported"
	onBoth := []string{nodes, affinity("[{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [arm64, amd64]}, {key: kubernetes.io/os, operator: In, values: [linux]}]}]")}
	amd64 := inspectFake(map[string]Inspection{image: platformsOf("linux", "amd64")})
	amdAndArm := inspectFake(map[string]Inspection{image: platformsOf("linux", "arm64", "linux", "amd64", "linux", "arm64")})
	tools := func(tool string) Options { return Options{ContainerTools: tool} }
	runOptional(t, []optionalCase{
		{"the default", name, nil, nil, amd64, []string{}},
		{"labels, images and nodes agree", name, slices.Concat(labels(both), onBoth), nil, amdAndArm, []string{}},
		{"docker", name, nil, nil, tools("docker"), []string{}},
		{"podman", name, nil, nil, tools("podman"), []string{}},
		{"another tool", name, nil, nil, tools("crane"), []string{"(Error) invalid value (crane) for (container-tools). …"}},
		{"a label of another value", name, labels("operatorframework.io/arch.arm64: maybe, operatorframework.io/arch.: supported"), nil, amd64, []string{}},
		{"an image lacks a declared architecture", name, slices.Concat(labels(both), onBoth), nil, amd64, []string{
			"Error: Value : " + start + `the architecture arm64 is supported by the CSV (label operatorframework.io/arch.arm64, or none), but not by all images: it was not found for ["registry.example/foo:v1"]`,
		}},
		{"a missing label", name, nil, nil, amdAndArm, []string{
			"Warning: Value : " + start + `the manager image "registry.example/foo:v1" is there for the architecture ["arm64"], for which the CSV may lack the label operatorframework.io/arch.<name>: supported; without any label only amd64 is assumed, which needs one as well once there are others`,
		}},
		{"a missing label among others", name, labels("operatorframework.io/arch.amd64: supported"), nil, amdAndArm, []string{
			"Warning: Value : " + start + `the manager image "registry.example/foo:v1" is there for the architecture ["arm64"], for which the CSV may lack the label operatorframework.io/arch.<name>: supported`,
		}},
		{"an operating system", name, nil, nil, inspectFake(map[string]Inspection{image: platformsOf("windows", "amd64")}), []string{
			"Error: Value : " + start + "the operating system linux is supported by the CSV…",
			"Warning: Value : " + start + `the manager image "registry.example/foo:v1" is there for the operating system ["windows"]…`,
		}},
		{"an image cannot be inspected", name, nil, nil, inspectFake(map[string]Inspection{image: {Err: errors.New("it is not there")}}), []string{
			"Error: Value : " + start + "unable to inspect the image (registry.example/foo:v1): it is not there",
		}},
		{"no affinity", name, []string{nodes, ""}, nil, amd64, []string{
			"Warning: Value : " + start + "the deployment foo asks for no architecture" + asks + `kubernetes.io/arch in ["amd64"] by node affinity, so that it is not scheduled where its images do not run`,
			"Warning: Value : " + start + "the deployment foo asks for no operating system" + asks + "kubernetes.io/os…",
		}},
		{"affinity to less", name, labels(both), nil, amdAndArm, []string{
			"Error: Value : " + start + `the architecture ["arm64"] is supported by the CSV, but the node affinity of the deployment foo does not allow it`,
		}},
		{"one matching term is enough", name, append(labels(both), nodes, affinity("[{matchExpressions: [{key: kubernetes.io/arch, operator: NotIn, values: [arm64, s390x]}, {key: kubernetes.io/os, operator: Exists}]}, "+
			"{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}]")), nil, amdAndArm, []string{}},
		{"a term that excludes an architecture", name, []string{nodes, affinity("[{matchExpressions: [{key: kubernetes.io/arch, operator: NotIn, values: [amd64]}, {key: kubernetes.io/os, operator: DoesNotExist}]}, {}]")}, nil, amd64, []string{
			"Error: Value : " + start + `the architecture ["amd64"]…`, "Error: Value : " + start + `the operating system ["linux"]…`,
		}},
		{"other images", name, []string{
			"  installModes:", "  relatedImages: [{name: a, image: a:v1}, {name: b, image: b:v1}, {name: again, image: " + image + "}, {name: none}]\n  installModes:",
		}, nil, inspectFake(map[string]Inspection{image: platformsOf("linux", "amd64"), "a:v1": platformsOf("linux", "arm64"), "b:v1": platformsOf("linux", "amd64", "linux", "arm64")}), []string{
			"Error: Value : " + start + `the architecture amd64 is supported by the CSV (label operatorframework.io/arch.amd64, or none), but not by all images: it was not found for ["a:v1"]`,
		}},
	})
}

// TestManagerImages checks which images count as those of the operator itself.
func TestManagerImages(t *testing.T) {
	var requested []string
	options := Options{Optional: []string{"multiarch"}, Inspect: func(images []string) map[string]Inspection {
		requested = images
		return map[string]Inspection{"m:v1": platformsOf("linux", "amd64", "linux", "arm64"), "p:v1": platformsOf("linux", "amd64", "linux", "s390x")}
	}}
	fsys := goodFS(map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV,
		"containers: [{name: c, image: registry.example/foo:v1,", "initContainers: [{name: i, image: i:v1}]\n              containers: [{name: proxy, image: p:v1, resources: {requests: {cpu: 1m, memory: 1Mi}}}, {name: manager, image: m:v1,")})
	compareFindings(t, []string{"Warning: Value : (foo.v1.2.3) the manager image \"m:v1\" is there for the architecture [\"arm64\"], …"}, findingTexts(t, fsys, options))
	if diff := cmp.Diff([]string{"p:v1", "m:v1", "i:v1"}, requested); diff != "" {
		t.Errorf("requested images (-want +got):\n%s", diff)
	}
}
