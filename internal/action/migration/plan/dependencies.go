package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// checkDependencies refuses an operator that requires what no ClusterExtension provides. OLM v1
// does not see what operators of OLM Classic provide.
func checkDependencies(f *Facts, _ Options) []Finding {
	var findings []Finding
	refuse := func(what string) {
		findings = append(findings, newBlocker("Dependencies", f.csvText(),
			"migrate the operator that provides it first, or install it as a ClusterExtension", "it requires %s, which no ClusterExtension provides", what))
	}

	if f.Bundle != nil {
		for _, p := range f.Bundle.Properties {
			if what, ok := describeRequirement(p); ok && !f.isProvided(p) {
				refuse(what)
			}
		}
	}

	if f.CSV != nil {
		for _, api := range f.CSV.Spec.APIServiceDefinitions.Required {
			refuse("APIService " + csvinfo.APIServiceName(api))
		}
		for _, crd := range f.CSV.Spec.CustomResourceDefinitions.Required {
			if f.Bundle == nil && !f.isCRDProvided(crd.Name) {
				refuse("CustomResourceDefinition " + crd.Name)
			}
		}
	}

	return findings
}

// checkDependents warns of operators of OLM Classic that require this one, by required CRDs or by the properties of their
// bundle.
func checkDependents(f *Facts, _ Options) []Finding {
	if f.CSV == nil {
		return nil
	}

	var findings []Finding
	for i := range f.CSVs {
		other := &f.CSVs[i]
		if other.UID == f.CSV.UID {
			continue
		}
		for _, what := range f.listNeeds(other) {
			findings = append(findings, newWarning("Dependents", describe("ClusterServiceVersion", other.Namespace, other.Name),
				"migrate it next: until then an update of it may install this package a second time", "it requires %s of this operator", what))
		}
	}

	return findings
}

// listNeeds returns what another operator requires of this one.
func (f *Facts) listNeeds(other *v1alpha1.ClusterServiceVersion) []string {
	var needs []string
	for _, crd := range other.Spec.CustomResourceDefinitions.Required {
		if slices.ContainsFunc(f.CSV.Spec.CustomResourceDefinitions.Owned, func(o v1alpha1.CRDDescription) bool { return o.Name == crd.Name }) {
			needs = append(needs, crd.Name)
		}
	}

	var recorded struct {
		Properties []fbc.Property `json:"properties"`
	}
	if json.Unmarshal([]byte(other.Annotations[csvinfo.AnnotationProperties]), &recorded) != nil {
		return needs // It has no properties, or none that can be read.
	}
	for _, p := range recorded.Properties {
		if what, ok := describeRequirement(p); ok && f.satisfiesProperty(p) {
			needs = append(needs, what)
		}
	}

	return needs
}

// satisfiesProperty reports whether this operator is of a required package, or owns a required API.
func (f *Facts) satisfiesProperty(p fbc.Property) bool {
	switch p.Type {
	case fbc.PropertyPackageRequired:
		var value requiredPackage
		return json.Unmarshal(p.Value, &value) == nil && value.PackageName == f.Subscription.Spec.Package
	case fbc.PropertyGVKRequired:
		var value requiredAPI
		return json.Unmarshal(p.Value, &value) == nil && slices.ContainsFunc(f.CSV.Spec.CustomResourceDefinitions.Owned, func(o v1alpha1.CRDDescription) bool {
			_, group, _ := strings.Cut(o.Name, ".")
			return value == requiredAPI{Group: group, Version: o.Version, Kind: o.Kind}
		})
	}
	return false
}

// requiredAPI is the value of an olm.gvk.required property.
type requiredAPI struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// requiredPackage is the value of an olm.package.required property.
type requiredPackage struct {
	PackageName  string `json:"packageName"`
	VersionRange string `json:"versionRange"`
}

// describeRequirement returns what a property requires. It returns false for properties that
// require nothing.
func describeRequirement(p fbc.Property) (string, bool) {
	if !dependency.IsRequirement(p.Type) {
		return "", false
	}

	switch p.Type {
	case fbc.PropertyPackageRequired:
		var value requiredPackage
		if json.Unmarshal(p.Value, &value) == nil {
			return strings.TrimSpace(fmt.Sprintf("package %s %s", value.PackageName, value.VersionRange)), true
		}
	case fbc.PropertyGVKRequired:
		var value requiredAPI
		if json.Unmarshal(p.Value, &value) == nil {
			return fmt.Sprintf("the API %s/%s %s", value.Group, value.Version, value.Kind), true
		}
	}

	return fmt.Sprintf("%s %s", p.Type, p.Value), true
}

// isProvided reports whether an active revision of a ClusterExtension provides what a property
// requires. operator-controller checks versions and constraints itself.
func (f *Facts) isProvided(p fbc.Property) bool {
	switch p.Type {
	case fbc.PropertyPackageRequired:
		var value requiredPackage
		return json.Unmarshal(p.Value, &value) == nil && slices.ContainsFunc(f.Revisions, func(set olmv1.ClusterObjectSet) bool {
			return isActive(&set) && set.Annotations[olmv1.AnnotationPackageName] == value.PackageName
		})
	case fbc.PropertyGVKRequired:
		var value requiredAPI
		return json.Unmarshal(p.Value, &value) == nil && slices.ContainsFunc(f.Revisions, func(set olmv1.ClusterObjectSet) bool {
			return isActive(&set) && providesAPI(&set, value)
		})
	}
	return false
}

func providesAPI(set *olmv1.ClusterObjectSet, wanted requiredAPI) bool {
	var provided []fbc.Property
	if json.Unmarshal([]byte(set.Annotations[olmv1.AnnotationProvides]), &provided) != nil {
		return false
	}
	return slices.ContainsFunc(provided, func(p fbc.Property) bool {
		var api requiredAPI
		return p.Type == fbc.PropertyGVK && json.Unmarshal(p.Value, &api) == nil && api == wanted
	})
}

// isCRDProvided reports whether an active revision of a ClusterExtension contains a CRD.
func (f *Facts) isCRDProvided(name string) bool {
	return slices.ContainsFunc(f.Revisions, func(set olmv1.ClusterObjectSet) bool {
		return isActive(&set) && slices.Contains(strings.Split(set.Annotations[olmv1.AnnotationCRDs], ","), name)
	})
}

func isActive(set *olmv1.ClusterObjectSet) bool {
	return set.Spec.LifecycleState == olmv1.LifecycleStateActive && set.DeletionTimestamp.IsZero()
}
