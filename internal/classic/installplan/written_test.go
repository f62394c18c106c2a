package installplan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

func TestWrittenVersions(t *testing.T) {
	newPlan := func(version string) *v1alpha1.InstallPlan {
		return &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plan", ResourceVersion: version}}
	}
	w := &writtenVersions{}
	if w.isOutdated(newPlan("1")) {
		t.Error("got a plan that was never written as outdated")
	}

	w.add(newPlan("10"))
	for version, want := range map[string]bool{"9": true, "10": false, "11": false} {
		if got := w.isOutdated(newPlan(version)); got != want {
			t.Errorf("version %s after a write of version 10: got outdated %t, want %t", version, got, want)
		}
	}

	w.remove(types.NamespacedName{Namespace: "ns", Name: "plan"})
	if w.isOutdated(newPlan("9")) {
		t.Error("got a plan as outdated after it was removed")
	}
}
