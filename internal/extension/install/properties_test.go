package install_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStatedPropertiesAreRecorded expects the properties that the author of a bundle states,
// and no others, on the revision: those of the CSV first, each once.
func TestStatedPropertiesAreRecorded(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("stated")
	w.addBundleImage("1.0.0", "0.1.0", func(f files) {
		f.replaceIn(csvFile, "  annotations:\n", "  annotations:\n    olm.properties: "+
			`'[{"type": "olm.maxOpenShiftVersion", "value": "4.20"}, {"type": "custom", "value": {"b": 1}}]'`+"\n")
		f["metadata/properties.yaml"] = "properties:\n- {type: custom, value: {b: 1}}\n- {type: other, value: <1>}\n"
	})
	w.createCatalog("stated", "0.1.0")
	w.CreateForTest(newExtension("stated", "stated"))

	got := w.waitForRevision("stated-1").Annotations["olm.properties"]
	want := `[{"type":"olm.maxOpenShiftVersion","value":"4.20"},{"type":"custom","value":{"b":1}},{"type":"other","value":"\u003c1\u003e"}]`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotation olm.properties (-want +got):\n%s", diff)
	}
}
