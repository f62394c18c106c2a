package validate

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
)

// defaultSCCs are the SecurityContextConstraints of OpenShift, which operators must not
// change.
var defaultSCCs = []string{
	"anyuid", "hostaccess", "hostmount-anyuid", "hostnetwork", "node-exporter", "nonroot", "privileged", "restricted",
}

func (o manifestObject) decodeInto(into any) error {
	raw, err := json.Marshal(o.content)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

// checkObjects reports objects with which an operator would disturb others on the cluster.
func checkObjects(s *decodedBundle, _ Options, found *findings) {
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
			found.addAboutValue(Error, o.name, "%s cannot be decoded: %v", o.kind, err)
		}
	}

	for _, granted := range s.collectRoleGrants() {
		granted.checkSharedResources(found)
	}
}

func (o manifestObject) checkDisruptionBudget(found *findings) error {
	var budget struct {
		Spec struct {
			MinAvailable   *intstr.IntOrString `json:"minAvailable"`
			MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"`
		} `json:"spec"`
	}
	if err := o.decodeInto(&budget); err != nil {
		return err
	}
	if unavailable := budget.Spec.MaxUnavailable; unavailable != nil && (unavailable.String() == "0" || unavailable.String() == "0%") {
		found.addAboutValue(Error, o.name, "maxUnavailable field cannot be set to 0 or 0%%")
	}
	if available := budget.Spec.MinAvailable; available != nil && available.String() == "100%" {
		found.addAboutValue(Error, o.name, "minAvailable field cannot be set to 100%%")
	}

	return nil
}

func (o manifestObject) checkPriorityClass(found *findings) error {
	var class struct {
		GlobalDefault bool `json:"globalDefault"`
	}
	if err := o.decodeInto(&class); err != nil {
		return err
	}
	if class.GlobalDefault {
		found.addAboutValue(Error, o.name, "globalDefault field cannot be set to true")
	}
	return nil
}

func (o manifestObject) checkOperatorGroup(found *findings) error {
	var group struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := o.decodeInto(&group); err != nil {
		return err
	}

	checkAnnotationCase(o.name, group.Metadata.Annotations, found)
	return nil
}

// checkSharedResources reports permissions to change what others on the cluster rely on.
func (g grant) checkSharedResources(found *findings) {
	if g.coversResource("policy", "poddisruptionbudgets") && g.allowsAnyVerb("create", "update", "patch") {
		found.addAboutValue(Warning, g.name, "%s grants the right to write poddisruptionbudgets, which can keep nodes from being drained", g.kind)
	}
	if !g.coversResource("security.openshift.io", "securitycontextconstraints") || !g.allowsAnyVerb("delete", "update", "patch") {
		return
	}

	// A rule without resource names applies to all objects.
	names := g.rule.ResourceNames
	if len(names) == 0 {
		names = defaultSCCs
	}

	for _, name := range names {
		if slices.Contains(defaultSCCs, name) {
			found.addAboutValue(Error, g.name, "%s grants the right to change or delete the default SecurityContextConstraints %q", g.kind, name)
		}
	}
}
