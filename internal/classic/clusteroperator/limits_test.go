package clusteroperator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const maxVersion = "olm.maxOpenShiftVersion"

// csv returns a ClusterServiceVersion with properties, which are pairs of type and value.
func csv(name string, properties ...string) metav1.PartialObjectMetadata {
	texts := []string{}
	for i := 0; i < len(properties); i += 2 {
		texts = append(texts, fmt.Sprintf(`{"type":%q,"value":%s}`, properties[i], properties[i+1]))
	}

	object := newCSVMetadata()
	object.Namespace, object.Name = "operators", name
	object.Annotations = map[string]string{csvinfo.AnnotationProperties: `{"properties":[` + strings.Join(texts, ",") + `]}`}

	return *object
}

// first is the beginning of the message for a cluster at 4.18.
const first = "ClusterServiceVersions blocking minor version upgrades to 4.19:\n"

func TestUpgradeable(t *testing.T) {
	invalid := func(name, why string) string {
		return first + "- operators/" + name + " has invalid olm.maxOpenShiftVersion properties: " + why
	}
	unreadable := csv("odd")
	unreadable.Annotations[csvinfo.AnnotationProperties] = `{"properties":[{"type":"olm.maxOpenShiftVersion"`
	none := csv("plain")
	none.Annotations = nil
	for name, c := range map[string]struct {
		csv     metav1.PartialObjectMetadata
		release string
		want    string // the message; empty when updates are allowed
	}{
		"no annotation":              {none, "4.18.0", ""},
		"no property":                {csv("a", "olm.gvk", `{"kind":"X"}`), "4.18.0", ""},
		"another property":           {csv("a", "note", `"olm.maxOpenShiftVersion"`), "4.18.0", ""},
		"the present minor":          {csv("a", maxVersion, `"4.18"`), "4.18.0", first + "- maximum supported OCP version for operators/a is 4.18"},
		"an earlier minor":           {csv("a", maxVersion, `"4.9"`), "4.18.0", first + "- maximum supported OCP version for operators/a is 4.9"},
		"the next minor":             {csv("a", maxVersion, `"4.19"`), "4.18.0", ""},
		"the next major":             {csv("a", maxVersion, `"5.0"`), "4.18.0", ""},
		"quoted twice":               {csv("a", maxVersion, `"\"4.18\""`), "4.18.0", first + "- maximum supported OCP version for operators/a is 4.18"},
		"a number":                   {csv("a", maxVersion, `4.18`), "4.18.0", first + "- maximum supported OCP version for operators/a is 4.18"},
		"tolerant":                   {csv("a", maxVersion, `" v4.18 "`), "4.18.0", first + "- maximum supported OCP version for operators/a is 4.18"},
		"twice":                      {csv("a", maxVersion, `"4.18"`, maxVersion, `"4.19"`), "4.18.0", invalid("a", `defining more than one "olm.maxOpenShiftVersion" property is not allowed`)},
		"empty":                      {csv("a", maxVersion, `""`), "4.18.0", invalid("a", `value cannot be "" (an empty string)`)},
		"no version":                 {csv("a", maxVersion, `"later"`), "4.18.0", invalid("a", `failed to parse "later" as semver: Invalid character(s) found in major number "0later"`)},
		"with a patch":               {csv("a", maxVersion, `"4.30.1"`), "4.18.0", invalid("a", "property olm.maxOpenShiftVersion must specify only <major>.<minor> version, got invalid value 4.30.1")},
		"with a pre-release":         {csv("a", maxVersion, `"4.30.0-rc.1"`), "4.18.0", invalid("a", "property olm.maxOpenShiftVersion must specify only <major>.<minor> version, got invalid value 4.30.0-rc.1")},
		"unreadable":                 {unreadable, "4.18.0", invalid("odd", "the annotation operatorframework.io/properties is not a JSON object with a list of properties: unexpected end of JSON input")},
		"a release's patch":          {csv("a", maxVersion, `"4.19"`), "4.18.99", ""},
		"a release's pre-release":    {csv("a", maxVersion, `"4.18"`), "4.18.0-rc.1", first + "- maximum supported OCP version for operators/a is 4.18"},
		"4.22, last 4.22":            {csv("a", maxVersion, `"4.22"`), "4.22.0", "ClusterServiceVersions blocking minor version upgrades to 4.23 or major version upgrades to 5.0:\n- maximum supported OCP version for operators/a is 4.22"},
		"4.22, last 4.23":            {csv("a", maxVersion, `"4.23"`), "4.22.0", ""},
		"4.22, last 5.0":             {csv("a", maxVersion, `"5.0"`), "4.22.0", ""},
		"4.23 is 5.0":                {csv("a", maxVersion, `"5.0"`), "4.23.0", "ClusterServiceVersions blocking minor version upgrades to 5.1:\n- maximum supported OCP version for operators/a is 5.0"},
		"5.0, last 4.23":             {csv("a", maxVersion, `"4.23"`), "5.0.0", "ClusterServiceVersions blocking minor version upgrades to 5.1:\n- maximum supported OCP version for operators/a is 4.23"},
		"an unknown release":         {csv("a", maxVersion, `"4.18"`), "", "Encountered errors while checking compatibility with the next minor version of OpenShift: the version of the platform is not known: set RELEASE_VERSION"},
		"no release at all":          {csv("a", maxVersion, `"4.18"`), "snapshot", `Encountered errors while checking compatibility with the next minor version of OpenShift: failed to parse "snapshot" as semver: Invalid character(s) found in major number "0snapshot"`},
		"an unknown release, no CSV": {none, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var statements []versionLimit
			if s := readVersionLimit(&c.csv); s != nil {
				statements = append(statements, *s)
			}

			got := newUpgradeableCondition(statements, c.release)
			want := metav1.ConditionTrue
			message, reason := c.want, reasonIncompatible
			switch {
			case c.want == "":
				message, reason = messageUpgradeable, "AsExpected"
			case strings.HasPrefix(c.want, "Encountered"):
				reason = reasonUndetermined
			}

			if c.want != "" {
				want = metav1.ConditionFalse
			}
			if got.Status != want || got.Reason != reason {
				t.Errorf("got status %s, reason %s", got.Status, got.Reason)
			}
			if diff := cmp.Diff(message, got.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// Errors come first, and long lists are truncated.
func TestManyLimits(t *testing.T) {
	var statements []versionLimit
	for i := range 60 {
		value := `"4.18"`
		if i == 30 {
			value = `""`
		}
		object := csv(fmt.Sprintf("o%02d", 59-i), maxVersion, value)
		statements = append(statements, *readVersionLimit(&object))
	}

	lines := strings.Split(newUpgradeableCondition(statements, "4.18.1").Message, "\n")
	if len(lines) != 52 || !strings.Contains(lines[1], "operators/o29 has invalid") || lines[2] != "- maximum supported OCP version for operators/o00 is 4.18" || lines[51] != "- and 10 more" {
		t.Errorf("got %d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

// Any annotation results in no version, in a version without a patch, or in an error.
func FuzzReadVersionLimit(f *testing.F) {
	f.Add(`{"properties":[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]}`)
	f.Add(`{"properties":[{"type":"olm.maxOpenShiftVersion","value":4.18},{"type":"olm.maxOpenShiftVersion","value":""}]}`)
	f.Add(`{"properties":"olm.maxOpenShiftVersion"}`)
	f.Fuzz(func(t *testing.T, annotation string) {
		if len(annotation) > 4096 {
			t.Skip("longer values find no more errors")
		}

		object := csv("a")
		object.Annotations[csvinfo.AnnotationProperties] = annotation
		s := readVersionLimit(&object)
		switch {
		case s == nil:
		case s.err == nil && !strings.Contains(annotation, maxVersion):
			t.Errorf("%q states %s", annotation, s)
		case s.name != "a" || s.namespace != "operators":
			t.Errorf("got the object %s/%s", s.namespace, s.name)
		}
	})
}
