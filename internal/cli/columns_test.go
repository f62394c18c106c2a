package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// read requests a resource in a format from the API server, as kubectl does.
func read(t *testing.T, path string, into any, form ...string) {
	t.Helper()
	config := env.Start(t)
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/apis/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set("Accept", strings.Join(append([]string{"application/json"}, form...), ";"))
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// columns returns the columns that kubectl get prints for a resource.
func columns(t *testing.T, path string) string {
	t.Helper()
	var table metav1.Table
	read(t, path, &table, "as=Table", "v=v1", "g=meta.k8s.io")
	var b strings.Builder
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			fmt.Fprintf(&b, "%s|", strings.ToUpper(column.Name))
		}
	}

	for _, row := range table.Rows {
		b.WriteString("\n")
		for i, cell := range row.Cells {
			if table.ColumnDefinitions[i].Priority == 0 {
				fmt.Fprintf(&b, "%v|", cell)
			}
		}
	}

	return b.String()
}

// Columns of kubectl get for clusterversions, clusteroperators and machineconfigpools.
func TestColumns(t *testing.T) {
	c := newClusterVersionFixture(t)
	const days = 24 * time.Hour
	old := func(condition configv1.ClusterOperatorStatusCondition, age time.Duration) configv1.ClusterOperatorStatusCondition {
		condition.LastTransitionTime = metav1.NewTime(time.Now().Add(-age))
		return condition
	}
	c.recreateClusterVersion(func(cv *configv1.ClusterVersion) {
		startUpdating(cv)
		for i := range cv.Status.Conditions {
			cv.Status.Conditions[i] = old(cv.Status.Conditions[i], 9*days)
			if cv.Status.Conditions[i].Type == "Progressing" {
				cv.Status.Conditions[i] = old(cv.Status.Conditions[i], 5*days)
			}
		}
	})

	want := `NAME|VERSION|AVAILABLE|PROGRESSING|SINCE|STATUS|
version|4.10.22|True|True|5d|Working towards 4.10.26: 700 of 800 done (87% complete), waiting on dns, machine-config|`
	if diff := cmp.Diff(want, columns(t, "config.openshift.io/v1/clusterversions")); diff != "" {
		t.Errorf("clusterversions (-want +got):\n%s", diff)
	}

	o := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "dns"}}
	c.Must(c.Create(t.Context(), o))
	t.Cleanup(func() { c.Must(c.Delete(context.Background(), o)) })
	o.Status = configv1.ClusterOperatorStatus{
		Versions: []configv1.OperandVersion{{Name: "coredns", Version: "1.11"}, {Name: "operator", Version: "4.10.22"}},
		Conditions: []configv1.ClusterOperatorStatusCondition{
			old(newCondition("Available", "True", "", "", 0), 6*days), old(newCondition("Progressing", "False", "", "", 0), 4*days), old(newCondition("Degraded", "True", "", "", 0), 3*days),
		},
	}

	c.Must(c.Status().Update(t.Context(), o))
	want = `NAME|VERSION|AVAILABLE|PROGRESSING|DEGRADED|SINCE|
dns|4.10.22|True|False|True|6d|`
	if diff := cmp.Diff(want, columns(t, "config.openshift.io/v1/clusteroperators")); diff != "" {
		t.Errorf("clusteroperators (-want +got):\n%s", diff)
	}

	machines := env.Client(t, corev1.AddToScheme, mcfgv1.AddToScheme)
	done := func(name string) *corev1.Node {
		return newMachineNode(name, masterConfig, masterConfig, mcfgv1.NodeDone)
	}
	createPoolWithNodes(t, machines, &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "master"}}, masterConfig, done("master-0"), done("master-1"), done("master-2"))
	worker := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	worker.Status.Configuration.Name = workerConfig
	createPoolWithNodes(t, machines, worker, newConfig, newMachineNode("worker-0", newConfig, newConfig, mcfgv1.NodeDone), newMachineNode("worker-1", workerConfig, newConfig, mcfgv1.NodeWorking))
	// The rows of the documented example, which has no ages.
	want = `NAME|CONFIG|UPDATED|UPDATING|DEGRADED|MACHINECOUNT|READYMACHINECOUNT|UPDATEDMACHINECOUNT|DEGRADEDMACHINECOUNT|AGE|
master|` + masterConfig + `|True|False|False|3|3|3|0|
worker|` + workerConfig + `|False|True|False|2|1|1|0|`
	var shown []string
	for i, line := range strings.Split(columns(t, "machineconfiguration.openshift.io/v1/machineconfigpools"), "\n") {
		if i > 0 {
			line = line[:strings.LastIndex(strings.TrimSuffix(line, "|"), "|")+1]
		}
		shown = append(shown, line)
	}

	if diff := cmp.Diff(want, strings.Join(shown, "\n")); diff != "" {
		t.Errorf("machineconfigpools (-want +got):\n%s", diff)
	}
}

// The output of `kubectl get clusterversion version -o json | jq .status.availableUpdates`, and of
// .status.conditionalUpdates, has the fields of the documented example.
func TestUpdateShapes(t *testing.T) {
	c := newClusterVersionFixture(t)
	channels := []string{"candidate-4.11", "fast-4.11"}
	c.recreateClusterVersion(func(cv *configv1.ClusterVersion) {
		cv.Status.AvailableUpdates = []configv1.Release{{Version: "4.10.26", Image: digest26, URL: "https://access.redhat.com/errata/RHBA-2022:5957", Channels: channels}}
		cv.Status.ConditionalUpdates[0].Release.URL, cv.Status.ConditionalUpdates[0].Release.Channels = "https://access.redhat.com/errata/RHBA-2022:5069", channels
	})
	var shown struct {
		Status struct {
			AvailableUpdates, ConditionalUpdates []map[string]any
		}
	}
	read(t, "config.openshift.io/v1/clusterversions/version", &shown)
	release := map[string]any{
		"channels": []any{"candidate-4.11", "fast-4.11"}, "image": digest26, "url": "https://access.redhat.com/errata/RHBA-2022:5957", "version": "4.10.26",
	}
	if diff := cmp.Diff([]map[string]any{release}, shown.Status.AvailableUpdates); diff != "" {
		t.Errorf("availableUpdates (-want +got):\n%s", diff)
	}

	const message = "Nodes with substantial numbers of containers and CPU contention may not reconcile machine configuration"
	const link = "https://bugzilla.redhat.com/show_bug.cgi?id=2111817#c22"
	conditional := map[string]any{
		"conditions": []any{map[string]any{
			"lastTransitionTime": "2024-02-27T11:00:00Z", "message": message + " " + link, "reason": "RPMOSTreeTimeout", "status": "False", "type": "Recommended",
		}},
		"release": map[string]any{
			"channels": []any{"candidate-4.11", "fast-4.11"}, "image": digest11, "url": "https://access.redhat.com/errata/RHBA-2022:5069", "version": "4.11.0",
		},
		"risks": []any{map[string]any{
			"matchingRules": []any{map[string]any{"type": "Always"}}, "message": message, "name": "RPMOSTreeTimeout", "url": link,
		}},
	}
	if diff := cmp.Diff([]map[string]any{conditional}, shown.Status.ConditionalUpdates); diff != "" {
		t.Errorf("conditionalUpdates (-want +got):\n%s", diff)
	}
}
