package validate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Platform is the operating system and architecture of an image, as values of GOOS and
// GOARCH.
type Platform struct {
	OS, Architecture string
}

// Inspection is the result of inspecting an image.
type Inspection struct {
	Platforms []Platform
	// Err is the reason why the image could not be inspected.
	Err error
}

// Labels of a CSV whose names end in an architecture or an operating system, and the value
// with which the operator supports it.
const (
	labelArch      = "operatorframework.io/arch."
	labelOS        = "operatorframework.io/os."
	labelSupported = "supported"
)

// containerTools are the tools with which the original validator can inspect images. This
// one needs none of them.
var containerTools = []string{"docker", "podman"}

// managerContainer is the name of the container with the operator itself.
const managerContainer = "manager"

// platformDimension is one of the two parts of a platform.
type platformDimension struct {
	// name is for messages, label is the prefix of a label of a CSV, and node is the label
	// of a node.
	name, label, node string
	standard          string
	valueOf           func(Platform) string
}

var dimensions = []platformDimension{
	{"architecture", labelArch, corev1.LabelArchStable, "amd64", func(p Platform) string { return p.Architecture }},
	{"operating system", labelOS, corev1.LabelOSStable, "linux", func(p Platform) string { return p.OS }},
}

// checkMultiarch compares the platforms that a CSV declares with those of its images, and
// with the node affinity of its Deployments.
func checkMultiarch(s *decodedBundle, options Options, found *findings) {
	if tool := options.ContainerTools; tool != "" && !slices.Contains(containerTools, tool) {
		found.add(Error, "invalid value (%s) for (container-tools). It can be %s, and need not be set: images are inspected without a tool",
			tool, strings.Join(containerTools, " or "))
		return
	}

	if s.csv == nil {
		return
	}

	images := collectImages(s.csv)
	inspected := map[string]Inspection{}
	if options.Inspect != nil {
		inspected = options.Inspect(images.all)
	}

	for _, image := range images.all {
		if err := inspected[image].Err; err != nil {
			found.addAboutCSV(Error, s.csv.Name, "unable to inspect the image (%s): %v", image, err)
		}
	}

	for _, d := range dimensions {
		declared, byLabel := d.declaredValues(s.csv.Labels)
		check := dimensionCheck{platformDimension: d, csv: s.csv, declared: declared, byLabel: byLabel, found: found}
		check.checkImagesProvide(images.all, inspected)
		check.checkManagerDeclared(images.manager, inspected)
		check.checkNodeAffinity()
	}
}

// declaredValues returns the values that the labels declare, or the standard one when they
// declare none.
func (d platformDimension) declaredValues(labels map[string]string) (values []string, byLabel bool) {
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if value, ok := strings.CutPrefix(label, d.label); ok && value != "" && labels[label] == labelSupported {
			values = append(values, value)
		}
	}

	if len(values) == 0 {
		return []string{d.standard}, false
	}
	return values, true
}

// providedValues returns the values that an image supports, sorted.
func (d platformDimension) providedValues(inspected Inspection) []string {
	var values []string
	for _, p := range inspected.Platforms {
		if value := d.valueOf(p); value != "" {
			values = append(values, value)
		}
	}

	slices.Sort(values)
	return slices.Compact(values)
}

// dimensionCheck compares the values that a CSV declares for a dimension with its images and Deployments.
type dimensionCheck struct {
	platformDimension
	csv      *v1alpha1.ClusterServiceVersion
	declared []string
	// byLabel is set if labels declare the values.
	byLabel bool
	found   *findings
}

// checkImagesProvide reports images that do not support a declared value.
func (c dimensionCheck) checkImagesProvide(images []string, inspected map[string]Inspection) {
	for _, value := range c.declared {
		var without []string
		for _, image := range images {
			if result, ok := inspected[image]; ok && result.Err == nil && !slices.Contains(c.providedValues(result), value) {
				without = append(without, image)
			}
		}
		if len(without) > 0 {
			c.found.addAboutCSV(Error, c.csv.Name, "the %s %s is supported by the CSV (label %s%s, or none), but not by all images: it was not found for %+q",
				c.name, value, c.label, value, without)
		}
	}
}

// checkManagerDeclared reports values that the manager image supports without a label.
func (c dimensionCheck) checkManagerDeclared(managers []string, inspected map[string]Inspection) {
	for _, image := range managers {
		missing := slices.DeleteFunc(c.providedValues(inspected[image]), func(value string) bool { return slices.Contains(c.declared, value) })
		if len(missing) == 0 {
			continue
		}

		hint := ""
		if !c.byLabel {
			hint = "; without any label only " + c.standard + " is assumed, which needs one as well once there are others"
		}

		c.found.addAboutCSV(Warning, c.csv.Name, "the manager image %q is there for the %s %+q, for which the CSV may lack the label %s<name>: %s%s",
			image, c.name, missing, c.label, labelSupported, hint)
	}
}

// checkNodeAffinity compares the declared values with the node affinity of the Deployments.
func (c dimensionCheck) checkNodeAffinity() {
	for _, deployment := range c.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		spec := deployment.Spec.Template.Spec
		terms := nodeSelectorTerms(spec)
		asks := slices.ContainsFunc(terms, func(term []corev1.NodeSelectorRequirement) bool {
			return slices.ContainsFunc(term, func(r corev1.NodeSelectorRequirement) bool { return r.Key == c.node })
		})
		if !asks {
			c.found.addAboutCSV(Warning, c.csv.Name, "the deployment %s asks for no %s of its nodes: require %s in %+q by node affinity, so that it is not scheduled where its images do not run",
				deployment.Name, c.name, c.node, c.declared)
			continue
		}

		refused := slices.DeleteFunc(slices.Clone(c.declared), func(value string) bool {
			return slices.ContainsFunc(terms, func(term []corev1.NodeSelectorRequirement) bool { return allowsNodeLabel(term, c.node, value) })
		})
		if len(refused) > 0 {
			c.found.addAboutCSV(Error, c.csv.Name, "the %s %+q is supported by the CSV, but the node affinity of the deployment %s does not allow it",
				c.name, refused, deployment.Name)
		}
	}
}

// nodeSelectorTerms returns the terms of a Pod's node selection. A node must match all
// requirements of one term.
func nodeSelectorTerms(spec corev1.PodSpec) [][]corev1.NodeSelectorRequirement {
	var always []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		always = append(always, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{spec.NodeSelector[key]}})
	}

	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return [][]corev1.NodeSelectorRequirement{always}
	}

	var terms [][]corev1.NodeSelectorRequirement
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 { // An empty one matches no node.
			terms = append(terms, slices.Concat(always, term.MatchExpressions))
		}
	}

	return terms
}

// allowsNodeLabel reports whether a term accepts a node with a label value.
func allowsNodeLabel(term []corev1.NodeSelectorRequirement, label, value string) bool {
	for _, r := range term {
		named := slices.Contains(r.Values, value)
		if r.Key == label && (r.Operator == corev1.NodeSelectorOpIn && !named ||
			r.Operator == corev1.NodeSelectorOpNotIn && named || r.Operator == corev1.NodeSelectorOpDoesNotExist) {
			return false
		}
	}

	return true
}

// csvImages are the images of a CSV, in its order and each once.
type csvImages struct {
	// manager are the images of the operator itself.
	manager []string
	all     []string
}

// collectImages returns the images of the Deployments and the related images. The manager
// is the container of that name, or else the only container of its Deployment.
func collectImages(csv *v1alpha1.ClusterServiceVersion) csvImages {
	var found csvImages
	add := func(list *[]string, image string) {
		if image != "" && !slices.Contains(*list, image) {
			*list = append(*list, image)
		}
	}
	var only []string
	for _, deployment := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		spec := deployment.Spec.Template.Spec
		for _, container := range slices.Concat(spec.Containers, spec.InitContainers) {
			add(&found.all, container.Image)
			if container.Name == managerContainer {
				add(&found.manager, container.Image)
			}
		}
		if len(spec.Containers) == 1 {
			add(&only, spec.Containers[0].Image)
		}
	}

	if len(found.manager) == 0 {
		found.manager = only
	}

	for _, related := range csv.Spec.RelatedImages {
		add(&found.all, related.Image)
	}

	return found
}
