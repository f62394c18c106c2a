package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-dev/mainstay/devcluster/internal/simulated"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// findBinary returns the path of the devcluster binary that these tests run: $DEVCLUSTER_BINARY, or ../bin/devcluster.
func findBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("DEVCLUSTER_BINARY")
	if path == "" {
		path = filepath.Join("..", "bin", "devcluster")
	}

	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no devcluster binary: %v; build it (see README.md), or set DEVCLUSTER_BINARY", err)
	}

	return path
}

// devcluster runs the command on its own data directory. The cluster is stopped at the end of the test.
type devcluster struct {
	t      *testing.T
	binary string
	dir    string
}

func newDevcluster(t *testing.T) devcluster {
	t.Helper()
	cluster := devcluster{t: t, binary: findBinary(t), dir: filepath.Join(t.TempDir(), "data")}
	t.Cleanup(func() { _, _ = cluster.run("down") })
	return cluster
}

func (d devcluster) run(args ...string) (output string, err error) {
	var stdout, stderr bytes.Buffer
	command := exec.Command(d.binary, append(args, "--data-dir", d.dir)...)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), errors.Join(err, errors.New(stderr.String()))
	}
	return stdout.String(), nil
}

func (d devcluster) mustRun(args ...string) string {
	d.t.Helper()
	output, err := d.run(args...)
	if err != nil {
		d.t.Fatalf("devcluster %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

func (d devcluster) status() state.Record {
	d.t.Helper()
	output, _ := d.run("status", "-o", "json") // It fails if the cluster does not run, but still prints the status.
	var record state.Record
	if err := json.Unmarshal([]byte(output), &record); err != nil {
		d.t.Fatalf("status: %v\n%s", err, output)
	}
	return record
}

func (d devcluster) client() kubernetes.Interface {
	d.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", strings.TrimSpace(d.mustRun("kubeconfig", "--path")))
	if err != nil {
		d.t.Fatal(err)
	}

	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		d.t.Fatal(err)
	}

	return client
}

// requireAudited lists config maps as a service account and requires that the audit log has the request.
func (d devcluster) requireAudited() {
	d.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", strings.TrimSpace(d.mustRun("kubeconfig", "--path")))
	if err != nil {
		d.t.Fatal(err)
	}

	token, err := d.client().CoreV1().ServiceAccounts("default").CreateToken(d.t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		d.t.Fatal(err)
	}

	config.CertData, config.KeyData, config.CertFile, config.KeyFile = nil, nil, "", ""
	config.BearerToken = token.Status.Token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").List(d.t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		d.t.Fatalf("listing config maps as a service account without rights: got error %v, want forbidden", err)
	}

	for line := range strings.Lines(d.mustRun("logs", "audit")) {
		var event struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource string }
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			d.t.Fatalf("the audit log has a line that is not JSON: %v\n%s", err, line)
		}
		if event.User.Username == "system:serviceaccount:default:default" && event.Verb == "list" && event.ObjectRef.Resource == "configmaps" {
			return
		}
	}

	d.t.Error("the audit log has no list of config maps by the service account default")
}

func TestStateSurvivesDownAndUp(t *testing.T) {
	cluster := newDevcluster(t)
	cluster.mustRun("up", "--detach", "--audit")
	before := cluster.status()
	if before.Phase != state.Running || before.Registry == "" {
		t.Fatalf("got status %+v, want Running and a registry", before)
	}
	if _, err := cluster.run("up"); err == nil || !strings.Contains(err.Error(), "runs on "+cluster.dir+" already") {
		t.Errorf("got error %v for a second up, want that a cluster runs already", err)
	}

	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"a": "b"}}
	_, err := cluster.client().CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	cluster.requireAudited()
	reference, err := name.ParseReference(before.Registry + "/team/app:v1")
	if err != nil {
		t.Fatal(err)
	}

	image, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, image); err != nil {
		t.Fatal(err)
	}

	cluster.mustRun("down")
	if record := cluster.status(); record.Phase != state.Stopped {
		t.Errorf("got status %+v after down, want Stopped", record)
	}

	cluster.mustRun("up", "--detach")
	if after := cluster.status(); after.Registry != before.Registry {
		t.Errorf("got the registry at %s, want it at %s as before", after.Registry, before.Registry)
	}
	if _, err := cluster.client().CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := remote.Head(reference); err != nil {
		t.Error(err)
	}

	if _, err := cluster.run("reset"); err == nil {
		t.Error("got no error for a reset of a cluster that runs")
	}

	cluster.mustRun("down")
	cluster.mustRun("reset")
	if _, err := os.Stat(cluster.dir); !os.IsNotExist(err) {
		t.Errorf("got error %v for the data directory after reset, want that it does not exist", err)
	}
}

func TestDeadComponentStopsCluster(t *testing.T) {
	cluster := newDevcluster(t)
	up := exec.Command(cluster.binary, "up", "--node", "none", "--data-dir", cluster.dir)
	var stderr bytes.Buffer
	up.Stderr = &stderr
	stdout, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}

	for line := ""; !strings.HasPrefix(line, "cluster "); {
		buffer := make([]byte, 4096) // A line is one write of the supervisor.
		n, err := stdout.Read(buffer)
		if err != nil {
			t.Fatalf("got error %v before the cluster was ready:\n%s", err, stderr.String())
		}

		lines := strings.Split(strings.TrimSpace(string(buffer[:n])), "\n")
		line = lines[len(lines)-1]
	}

	for _, component := range cluster.status().Components {
		if component.Name == "kube-scheduler" {
			if err := syscall.Kill(component.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}

	const want = "kube-scheduler died: signal: killed; the end of its log"
	if err := up.Wait(); err == nil || !strings.Contains(stderr.String(), want) {
		t.Errorf("got error %v and output %q, want it to contain %q", err, stderr.String(), want)
	}
	if record := cluster.status(); record.Phase != state.Failed || !strings.Contains(record.Message, "kube-scheduler died") {
		t.Errorf("got status %+v, want that kube-scheduler died", record)
	}
}

// TestPodBehavior has no timeout of its own. If a pod does not reach the expected state, the timeout of the test run
// ends the test and shows where it waits.
func TestPodBehavior(t *testing.T) {
	cluster := newDevcluster(t)
	cluster.mustRun("up", "--detach")
	pods := cluster.client().CoreV1().Pods("default")
	for _, test := range []struct {
		behavior string
		until    func(corev1.PodStatus) bool
	}{
		{"", func(status corev1.PodStatus) bool { return readyStatus(status) == corev1.ConditionTrue }},
		{simulated.Unready, func(status corev1.PodStatus) bool {
			return status.Phase == corev1.PodRunning && readyStatus(status) == corev1.ConditionFalse
		}},
		{simulated.Fail, func(status corev1.PodStatus) bool {
			return len(status.ContainerStatuses) == 1 && status.ContainerStatuses[0].State.Waiting != nil &&
				status.ContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
		}},
	} {
		t.Run("behavior "+test.behavior, func(t *testing.T) {
			watcher, err := pods.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer watcher.Stop()
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					GenerateName: "app-", Annotations: map[string]string{simulated.BehaviorAnnotation: test.behavior},
				},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}},
			}
			if pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}

			waitForPod(t.Context(), t, watcher, pod.Name, test.until)
		})
	}
}

func waitForPod(ctx context.Context, t *testing.T, watcher watch.Interface, name string, until func(corev1.PodStatus) bool) {
	t.Helper()
	for {
		select {
		case event, open := <-watcher.ResultChan():
			if !open {
				t.Fatal("the watch ended")
			}
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Name == name && until(pod.Status) {
				return
			}
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
}

func readyStatus(status corev1.PodStatus) corev1.ConditionStatus {
	for _, condition := range status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}
