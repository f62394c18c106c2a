package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

func TestJudge(t *testing.T) {
	condition := func(of, status, reason, message string) metav1.Condition {
		return metav1.Condition{Type: of, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: 2}
	}
	progressing := func(status, reason, message string) metav1.Condition {
		return condition(olmv1.TypeProgressing, status, reason, message)
	}
	done := progressing("True", olmv1.ReasonSucceeded, "desired state reached")
	available := condition(olmv1.TypeAvailable, "True", olmv1.ReasonProbesSucceeded, "")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		version    string // installed
		want       outcome
	}{
		"no conditions":       {nil, "", ""},
		"rolling out":         {[]metav1.Condition{progressing("True", olmv1.ReasonRollingOut, "phase crds")}, "", ""},
		"installed":           {[]metav1.Condition{done, available}, "1.0.0", installed},
		"not available":       {[]metav1.Condition{done, condition(olmv1.TypeAvailable, "False", "", "")}, "1.0.0", ""},
		"another version":     {[]metav1.Condition{done, available}, "0.9.0", ""},
		"blocked":             {[]metav1.Condition{progressing("False", olmv1.ReasonBlocked, "bad"), available}, "0.9.0", refused},
		"no edge":             {[]metav1.Condition{progressing("True", olmv1.ReasonRetrying, `no bundles found for package "p"`)}, "", refused},
		"depends on another":  {[]metav1.Condition{progressing("True", olmv1.ReasonRetrying, `bundle "p" has a dependency declared via property "olm.gvk.required" which is not met`)}, "", refused},
		"unsafe":              {[]metav1.Condition{progressing("True", olmv1.ReasonRetrying, "failed upgrade safety validation")}, "", refused},
		"a missing kind":      {[]metav1.Condition{progressing("True", olmv1.ReasonRetrying, "authorization evaluation error: x")}, "", refused},
		"insufficient rights": {[]metav1.Condition{progressing("True", olmv1.ReasonRetrying, "service account requires the following permissions")}, "", unexpected},
		"retried":             {[]metav1.Condition{progressing("True", olmv1.ReasonRetrying, "connection refused")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			extension.Status.Conditions = test.conditions
			if test.version != "" {
				extension.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Version: test.version}}
			}
			if got, reason := judgeOutcome(extension, "1.0.0"); got != test.want {
				t.Errorf("got %q (%s), want %q", got, reason, test.want)
			}
		})
	}
}
