package validate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Platform is what an image runs on, in the words of GOOS and GOARCH.
type Platform struct {
	OS, Architecture string
}

// Inspection is what was learned of an image.
type Inspection struct {
	Platforms []Platform
	// Err says why nothing was.
	Err error
}

// Labels of a CSV whose names end in an architecture or an operating system, and the
// value that says that the operator runs there.
const (
	labelArch      = "operatorframework.io/arch."
	labelOS        = "operatorframework.io/os."
	labelSupported = "supported"
)

// containerTools are what the field's validator may be told to inspect images with. Ours
// needs none of them.
var containerTools = []string{"docker", "podman"}

// managerContainer is what the container of an operator's own program is called.
const managerContainer = "manager"

// dimension is one of the two things that make a platform.
type dimension struct {
	// name for people, label of a CSV without its end, and label of a node.
	name, label, node string
	standard          string
	of                func(Platform) string
}

var dimensions = []dimension{
	{"architecture", labelArch, corev1.LabelArchStable, "amd64", func(p Platform) string { return p.Architecture }},
	{"operating system", labelOS, corev1.LabelOSStable, "linux", func(p Platform) string { return p.OS }},
}

// checkMultiarch compares the platforms that a CSV says it supports with those of its
// images, and with where its Deployments may run.
func checkMultiarch(s *subject, options Options, found *findings) {
	if tool := options.ContainerTools; tool != "" && !slices.Contains(containerTools, tool) {
		found.add(Error, "invalid value (%s) for (container-tools). It can be %s, and need not be set: images are inspected without a tool",
			tool, strings.Join(containerTools, " or "))
		return
	}

	if s.csv == nil {
		return
	}

	images := s.images()
	inspected := map[string]Inspection{}
	if options.Inspect != nil {
		inspected = options.Inspect(images.all)
	}

	for _, image := range images.all {
		if err := inspected[image].Err; err != nil {
			found.csv(Error, s.csv.Name, "unable to inspect the image (%s): %v", image, err)
		}
	}

	for _, d := range dimensions {
		declared, byLabel := d.declared(s.csv.Labels)
		s.checkProvided(d, declared, images.all, inspected, found)
		s.checkDeclared(d, declared, byLabel, images.manager, inspected, found)
		s.checkAffinity(d, declared, found)
	}
}

// declared returns what the labels name, or the standard when they name nothing.
func (d dimension) declared(labels map[string]string) (values []string, byLabel bool) {
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

// provided returns what an image is there for, sorted.
func (d dimension) provided(inspected Inspection) []string {
	var values []string
	for _, p := range inspected.Platforms {
		if value := d.of(p); value != "" {
			values = append(values, value)
		}
	}

	slices.Sort(values)
	return slices.Compact(values)
}

// checkProvided looks for images that are not there for what is declared.
func (s *subject) checkProvided(d dimension, declared, images []string, inspected map[string]Inspection, found *findings) {
	for _, value := range declared {
		var without []string
		for _, image := range images {
			if result, ok := inspected[image]; ok && result.Err == nil && !slices.Contains(d.provided(result), value) {
				without = append(without, image)
			}
		}
		if len(without) > 0 {
			found.csv(Error, s.csv.Name, "the %s %s is supported by the CSV (label %s%s, or none), but not by all images: it was not found for %+q",
				d.name, value, d.label, value, without)
		}
	}
}

// checkDeclared looks for what the operator's own program is there for without a label.
func (s *subject) checkDeclared(d dimension, declared []string, byLabel bool, managers []string, inspected map[string]Inspection, found *findings) {
	for _, image := range managers {
		missing := slices.DeleteFunc(d.provided(inspected[image]), func(value string) bool { return slices.Contains(declared, value) })
		if len(missing) == 0 {
			continue
		}

		hint := ""
		if !byLabel {
			hint = "; without any label only " + d.standard + " is assumed, which needs one as well once there are others"
		}

		found.csv(Warning, s.csv.Name, "the manager image %q is there for the %s %+q, for which the CSV may lack the label %s<name>: %s%s",
			image, d.name, missing, d.label, labelSupported, hint)
	}
}

// checkAffinity compares what is declared with the nodes that the Deployments ask for.
func (s *subject) checkAffinity(d dimension, declared []string, found *findings) {
	for _, deployment := range s.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		spec := deployment.Spec.Template.Spec
		terms := nodeTerms(spec)
		asks := slices.ContainsFunc(terms, func(term []corev1.NodeSelectorRequirement) bool {
			return slices.ContainsFunc(term, func(r corev1.NodeSelectorRequirement) bool { return r.Key == d.node })
		})
		if !asks {
			found.csv(Warning, s.csv.Name, "the deployment %s asks for no %s of its nodes: require %s in %+q by node affinity, so that it is not scheduled where its images do not run",
				deployment.Name, d.name, d.node, declared)
			continue
		}

		refused := slices.DeleteFunc(slices.Clone(declared), func(value string) bool {
			return slices.ContainsFunc(terms, func(term []corev1.NodeSelectorRequirement) bool { return allows(term, d.node, value) })
		})
		if len(refused) > 0 {
			found.csv(Error, s.csv.Name, "the %s %+q is supported by the CSV, but the node affinity of the deployment %s does not allow it",
				d.name, refused, deployment.Name)
		}
	}
}

// nodeTerms returns what a Pod asks of its node: one of the terms, and of it everything.
func nodeTerms(spec corev1.PodSpec) [][]corev1.NodeSelectorRequirement {
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

// allows reports whether a term takes a node whose label has a value.
func allows(term []corev1.NodeSelectorRequirement, label, value string) bool {
	for _, r := range term {
		named := slices.Contains(r.Values, value)
		if r.Key == label && (r.Operator == corev1.NodeSelectorOpIn && !named ||
			r.Operator == corev1.NodeSelectorOpNotIn && named || r.Operator == corev1.NodeSelectorOpDoesNotExist) {
			return false
		}
	}

	return true
}

// images are those that a CSV names, in its order and each once.
type images struct {
	// manager are those of the operator's own program.
	manager []string
	all     []string
}

// images finds them: in the Deployments, and among the related ones. The manager is the
// container of that name; where there is none, it is the only one of its Deployment.
func (s *subject) images() images {
	var found images
	add := func(list *[]string, image string) {
		if image != "" && !slices.Contains(*list, image) {
			*list = append(*list, image)
		}
	}
	var only []string
	for _, deployment := range s.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
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

	for _, related := range s.csv.Spec.RelatedImages {
		add(&found.all, related.Image)
	}

	return found
}
