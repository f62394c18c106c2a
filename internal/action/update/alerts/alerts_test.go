package alerts

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newAlertResponse(labels, state string) string {
	return fmt.Sprintf(`{"status":"success","data":{"alerts":[{"labels":{%s},"annotations":{},"state":%q,"activeAt":"2024-02-27T11:30:00Z"}]}}`, labels, state)
}

func TestConcern(t *testing.T) {
	for labels, want := range map[string]string{
		`"alertname":"PodDisruptionBudgetAtLimit","severity":"warning"`:            checkBudgets,
		`"alertname":"PodDisruptionBudgetLimit","severity":"critical"`:             checkBudgets,
		`"alertname":"KubeContainerWaiting","severity":"warning"`:                  checkImages,
		`"alertname":"KubeNodeNotReady","severity":"warning"`:                      checkNodes,
		`"alertname":"KubeNodeUnreachable","severity":"warning"`:                   checkNodes,
		`"alertname":"KubeNodeReadinessFlapping","severity":"warning"`:             checkNodes,
		`"alertname":"ClusterOperatorDown","severity":"critical"`:                  checkCritical,
		`"alertname":"Custom","severity":"info","openShiftUpdatePrecheck":"true"`:  checkPrecheck,
		`"alertname":"Custom","severity":"info","openShiftUpdatePrecheck":"false"`: "",
		`"alertname":"Watchdog","severity":"none"`:                                 "",
		`"alertname":"ClusterOperatorDegraded","severity":"warning"`:               "",
		`"severity":"critical"`: checkCritical,
	} {
		firing, err := Parse([]byte(newAlertResponse(labels, "firing")))
		if err != nil || len(firing) != 1 {
			t.Fatalf("%s: got %v and error %v, want one alert", labels, firing, err)
		}

		concern, ok := firing[0].Concern()
		if concern.Check != want || ok != (want != "") || ok && (concern.Impact == "" || concern.Text == "") {
			t.Errorf("%s: %+v, want %q", labels, concern, want)
		}
		if pending, err := Parse([]byte(newAlertResponse(labels, "pending"))); err != nil || len(pending) != 0 {
			t.Errorf("%s, pending: got %v and error %v, want none", labels, pending, err)
		}
	}
}

func TestAlertTexts(t *testing.T) {
	for name, test := range map[string]struct {
		alert Alert
		want  string
	}{
		"nothing": {Alert{}, "unnamed|unknown|unnamed||||"},
		"all": {
			Alert{
				Labels:      map[string]string{"alertname": "A", "severity": "info", "namespace": "kitchen", "pod": "kettle"},
				Annotations: map[string]string{"summary": "in\nshort", "description": "at length", "runbook_url": "https://runbooks.example.com/a"},
			},
			"A|info|in short|at length|https://runbooks.example.com/a|pods: kitchen/kettle|Namespace=kitchen, Pod=kettle",
		},
		"only a message": {Alert{Labels: map[string]string{"alertname": "A", "namespace": "kitchen"}, Annotations: map[string]string{"message": "m"}}, "A|unknown|m|m||namespaces: kitchen|Namespace=kitchen"},
		"no link":        {Alert{Labels: map[string]string{"alertname": "A", "node": "n", "namespace": "x"}, Annotations: map[string]string{"runbook_url": "javascript:alert(1)"}}, "A|unknown|A|||nodes: n|Node=n"},
		"a workload": {
			Alert{Labels: map[string]string{"alertname": "A", "namespace": "kitchen", "deployment": "kettle", "pod": "kube-state-metrics-0", "container": "main"}},
			"A|unknown|A|||deployments.apps: kitchen/kettle|Namespace=kitchen, Deployment=kettle",
		},
		"a container": {
			Alert{Labels: map[string]string{"alertname": "KubeContainerWaiting", "namespace": "kitchen", "pod": "kettle", "container": "main"}},
			"KubeContainerWaiting|unknown|KubeContainerWaiting|||pods: kitchen/kettle|Namespace=kitchen, Pod=kettle, Container=main",
		},
		"an operator": {
			Alert{Labels: map[string]string{"alertname": "ClusterOperatorDown", "namespace": "openshift-cluster-version", "name": "dns"}},
			"ClusterOperatorDown|unknown|ClusterOperatorDown|||clusteroperators.config.openshift.io: dns|ClusterOperator=dns",
		},
		"escape sequences": {Alert{Labels: map[string]string{"alertname": "A\x1b[31m"}}, "A[31m|unknown|A[31m||||"},
	} {
		a := test.alert
		got := strings.Join([]string{a.Name(), a.Severity(), a.Summary(), a.Description(), a.Reference(), a.Resource(), a.Object()}, "|")
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFiring(t *testing.T) {
	answer := newAlertResponse(`"alertname":"A"`, "firing")
	file := filepath.Join(t.TempDir(), "alerts.json")
	if err := os.WriteFile(file, []byte(answer), 0o600); err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good/api/v1/alerts":
			_, _ = io.WriteString(w, answer)
		case "/long/api/v1/alerts":
			_, _ = io.WriteString(w, strings.Repeat(" ", MaxBytes+1))
		case "/failing/api/v1/alerts":
			_, _ = io.WriteString(w, `{"status":"error"}`)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))

	defer server.Close()
	want := []Alert{{Labels: map[string]string{"alertname": "A"}, Annotations: map[string]string{}, State: "firing", Since: time.Date(2024, 2, 27, 11, 30, 0, 0, time.UTC)}}
	for location, test := range map[string]struct {
		want []Alert
		err  string
	}{
		"":                                {},
		"-":                               {want: want},
		file:                              {want: want},
		file + "x":                        {err: "no such file"},
		server.URL + "/good":              {want: want},
		server.URL + "/good/":             {want: want},
		server.URL + "/long":              {err: "more than"},
		server.URL + "/failing":           {err: `no "status": "success"`},
		server.URL + "/else?token=secret": {err: "403 Forbidden"},
	} {
		got, err := (&Source{Location: location, In: strings.NewReader(answer)}).Firing(t.Context())
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", location, diff)
		}
		switch {
		case (err == nil) != (test.err == ""), err != nil && !strings.Contains(err.Error(), test.err):
			t.Errorf("%s: %v, want %q", location, err, test.err)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error contains a secret: %v", location, err)
		}
	}
}

// FuzzParse checks that all returned alerts are firing and that their texts are single
// lines without control characters.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{newAlertResponse(`"alertname":"A"`, "firing"), `{"status":"success"}`, `[]`, `{"status":"success","data":{"alerts":[null]}}`, "\x00"} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		firing, err := Parse(data)
		if err != nil && firing != nil {
			t.Fatalf("got an error and %d alerts, want only the error", len(firing))
		}
		for _, a := range firing {
			if a.State != "firing" {
				t.Fatalf("got alert %+v, want a firing one", a)
			}
			for _, text := range []string{a.Name(), a.Severity(), a.Summary(), a.Description(), a.Reference(), a.Resource(), a.Object()} {
				if strings.ContainsAny(text, "\n\r\x1b\x00") {
					t.Fatalf("got %q, want a line of text", text)
				}
			}
			a.Concern()
		}
	})
}
