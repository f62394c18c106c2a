package fbc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Finding is a violation of a rule that the documentation of file-based catalogs states and that
// the established opm does not check. A catalog with findings is valid: OLM loads it and ignores
// what it cannot use.
type Finding struct {
	// Message describes the fault and names the object.
	Message string
	// At is the position of the blob.
	At Place
}

// String returns the message with the position of the blob.
func (f Finding) String() string { return f.At.Wrap(errors.New(f.Message)).Error() }

// maxFindings is the maximum number of findings of a catalog. More of them are not useful.
const maxFindings = 100

// addFindingf adds a finding about the blob.
func (s *Summary) addFindingf(format string, args ...any) {
	if len(s.findings) < maxFindings {
		s.findings = append(s.findings, Finding{Message: fmt.Sprintf(format, args...), At: s.At})
	}
}

// checkReservedSchema adds a finding if the schema is in the name space of OLM and OLM does not
// define it.
func (s *Summary) checkReservedSchema() {
	if strings.HasPrefix(s.schema, "olm.") {
		s.addFindingf("schema %q is not one of OLM: schemas that start with olm. are reserved, use a prefix of your own", s.schema)
	}
}

// checkPropertyOfBundle adds the findings of a property whose value fits its type.
func (s *Summary) checkPropertyOfBundle(i int, p Property) {
	var problem string
	switch {
	case p.Type == "":
		problem = "it has no type, so nothing uses it"
	case bytes.Equal(p.Value, []byte("null")):
		problem = "its value is null"
	case p.Type == PropertyGVK, p.Type == PropertyGVKRequired:
		if gvk, err := readGVKProperty(p.Value); err == nil {
			problem = gvk.findProblem()
		}
	case p.Type == PropertyPackageRequired:
		if required, err := readPackageRequired(p.Value); err == nil {
			problem = required.findProblem()
		}
	}

	if problem != "" {
		s.addFindingf("package %q, bundle %q: property[%d] of type %q: %s", s.pkg, s.name, i, p.Type, problem)
	}
}

// findProblem returns why Kubernetes cannot have such an API, or "".
func (g GVK) findProblem() string {
	for _, field := range []struct {
		name, value string
		check       func(string) []string
	}{
		{"group", g.Group, validation.IsDNS1123Subdomain},
		{"version", g.Version, validation.IsDNS1035Label},
		{"kind", strings.ToLower(g.Kind), validation.IsDNS1035Label},
	} {
		if field.value == "" {
			return field.name + " is missing"
		}
		if problems := field.check(field.value); len(problems) > 0 {
			return fmt.Sprintf("%s %q is invalid: %s", field.name, field.value, strings.Join(problems, "; "))
		}
	}

	return ""
}

// findProblem returns why no package can meet the requirement, or "".
func (r PackageRequired) findProblem() string {
	switch {
	case r.PackageName == "":
		return "packageName is missing"
	case r.VersionRange == "":
		return "versionRange is missing"
	}
	if err := checkVersionRange(r.VersionRange); err != nil {
		return fmt.Sprintf("versionRange %q is invalid: %v", r.VersionRange, err)
	}
	return ""
}

// findMisnamedBundles returns the bundles of channels whose names do not separate the name of the
// operator and the version with a period, as in foo.v1.2.3. Names of rebuilds have another form,
// which is a rule of its own.
func (p *ModelPackage) findMisnamedBundles() []Finding {
	inChannel := map[string]bool{}
	for _, channel := range p.Channels {
		for i := range channel.Entries {
			inChannel[channel.Entries[i].Name] = true
		}
	}

	var findings []Finding
	for _, b := range p.Bundles {
		if !inChannel[b.Name] || b.Release != "" {
			continue
		}
		version := fmt.Sprintf("%d.%d.%d", b.Version.Major, b.Version.Minor, b.Version.Patch)
		if !strings.Contains(b.Name, "."+version) && !strings.Contains(b.Name, ".v"+version) {
			findings = append(findings, Finding{At: b.At, Message: fmt.Sprintf(
				"package %q, bundle %q: the name does not end with a period and the version: use a name such as %s.v%s", p.Name, b.Name, p.Name, b.Version)})
		}
	}

	return findings
}

// setFindings collects the findings of all blobs in the order of the catalog.
func (m *Model) setFindings(ofBlobs []Finding) {
	m.Findings = ofBlobs
	for _, p := range m.Packages {
		m.Findings = append(m.Findings, p.findMisnamedBundles()...)
	}

	slices.SortStableFunc(m.Findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Document, b.At.Document))
	})
	m.Findings = m.Findings[:min(len(m.Findings), maxFindings)]
}

// NewFindingsError returns a *TreeError with findings, or nil if there are none.
func NewFindingsError(findings []Finding) error {
	root := &TreeError{Message: "invalid index"}
	for _, finding := range findings {
		root.addCauses(newFaultf(finding.At, "%s", finding.Message))
	}
	return root.errorOrNil()
}
