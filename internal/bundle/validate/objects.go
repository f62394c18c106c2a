package validate

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
)

// defaultConstraints are the SecurityContextConstraints that OpenShift brings, which
// nobody else may change.
var defaultConstraints = []string{
	"anyuid", "hostaccess", "hostmount-anyuid", "hostnetwork", "node-exporter", "nonroot", "privileged", "restricted",
}

func (o object) decode(into any) error {
	raw, err := json.Marshal(o.content)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

// checkObjects holds objects of a few kinds to what an operator on a cluster with others
// must not do.
func checkObjects(s *subject, _ Options, found *findings) {
	for _, o := range s.objects {
		var err error
		switch o.kind {
		case "PodDisruptionBudget":
			err = o.checkDisruptionBudget(found)
		case "PriorityClass":
			err = o.checkPriorityClass(found)
		case "OperatorGroup":
			err = o.checkOperatorGroup(found)
		}
		if err != nil {
			found.about(Error, o.name, "%s cannot be decoded: %v", o.kind, err)
		}
	}

	for _, granted := range s.roleGrants() {
		granted.checkShared(found)
	}
}

func (o object) checkDisruptionBudget(found *findings) error {
	var budget struct {
		Spec struct {
			MinAvailable   *intstr.IntOrString `json:"minAvailable"`
			MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"`
		} `json:"spec"`
	}
	if err := o.decode(&budget); err != nil {
		return err
	}
	if unavailable := budget.Spec.MaxUnavailable; unavailable != nil && (unavailable.String() == "0" || unavailable.String() == "0%") {
		found.about(Error, o.name, "maxUnavailable field cannot be set to 0 or 0%%")
	}
	if available := budget.Spec.MinAvailable; available != nil && available.String() == "100%" {
		found.about(Error, o.name, "minAvailable field cannot be set to 100%%")
	}

	return nil
}

func (o object) checkPriorityClass(found *findings) error {
	var class struct {
		GlobalDefault bool `json:"globalDefault"`
	}
	if err := o.decode(&class); err != nil {
		return err
	}
	if class.GlobalDefault {
		found.about(Error, o.name, "globalDefault field cannot be set to true")
	}
	return nil
}

func (o object) checkOperatorGroup(found *findings) error {
	var group struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := o.decode(&group); err != nil {
		return err
	}

	checkAnnotationCase(o.name, group.Metadata.Annotations, found)
	return nil
}

// checkShared looks for rights to change what others on the cluster rely on.
func (g grant) checkShared(found *findings) {
	if g.on("policy", "poddisruptionbudgets") && g.allows("create", "update", "patch") {
		found.about(Warning, g.name, "%s grants the right to write poddisruptionbudgets, which can keep nodes from being drained", g.kind)
	}
	if !g.on("security.openshift.io", "securitycontextconstraints") || !g.allows("delete", "update", "patch") {
		return
	}

	// A rule that names no object is about all.
	names := g.rule.ResourceNames
	if len(names) == 0 {
		names = defaultConstraints
	}

	for _, name := range names {
		if slices.Contains(defaultConstraints, name) {
			found.about(Error, g.name, "%s grants the right to change or delete the default SecurityContextConstraints %q", g.kind, name)
		}
	}
}
