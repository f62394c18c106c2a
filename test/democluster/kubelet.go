package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// runningPod is a pod that a simulated node marks as running.
type runningPod struct{ namespace, name, uid, account, node, image string }

// componentProcess is a component of the payload that runs as a process in place of its pods.
type componentProcess struct {
	name string
	// account is the service account of its pods. node is their node; empty means any.
	account, node string
	args          func(version string) []string

	// pod is the pod that the process replaces. It is empty if there is none, or if the process
	// was started before its pod.
	pod     runningPod
	version string
	process *cluster.Process
	// logOffset is the size of the log before the process was started.
	logOffset int64
	// endedOnce is set if the process was seen to have ended while its pod existed.
	endedOnce bool
}

// fakeKubelet runs the components as processes. Each runs as long as its pod exists, in the
// version of the pod's image and with a token of the pod. It therefore has exactly the rights of
// the release's roles.
type fakeKubelet struct {
	demo  *demo
	nodes []string
	// versions are the versions of the releases by the images of their components.
	versions      map[string]string
	processes     []*componentProcess
	updateService *cluster.Process
}

// addProcess adds a component that runs once it has a pod.
func (k *fakeKubelet) addProcess(s *componentProcess) *componentProcess {
	k.processes = append(k.processes, s)
	return s
}

// startProcess starts a component in a version.
func (k *fakeKubelet) startProcess(s *componentProcess, version, kubeconfig string) error {
	if info, err := os.Stat(k.demo.logPath(s.name)); err == nil {
		s.logOffset = info.Size()
	}

	p, err := k.demo.launchProgram(version, s.name, kubeconfig, append(s.args(version), "--health-probe-bind-address=0", "--metrics-bind-address=0",
		"--cache-dir="+filepath.Join(k.demo.dir, "cache", s.name))...)
	if err != nil {
		return err
	}

	s.process, s.version = p, version
	return nil
}

// syncProcesses starts processes for new pods and stops processes without pods.
func (k *fakeKubelet) syncProcesses(ctx context.Context) error {
	if k.updateService != nil {
		if err := k.updateService.CheckRunning(); err != nil {
			return err
		}
	}

	if len(k.processes) == 0 {
		return nil
	}

	pods, err := k.listRunningPods(ctx)
	if err != nil {
		return err
	}

	for _, s := range k.processes {
		if err := k.syncProcess(ctx, s, pods); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}

	return nil
}

func (k *fakeKubelet) syncProcess(ctx context.Context, s *componentProcess, pods []runningPod) error {
	mine := slices.DeleteFunc(slices.Clone(pods), func(p runningPod) bool {
		return p.account != s.account || (s.node != "" && p.node != s.node) || k.versions[p.image] == ""
	})
	if s.process != nil && (slices.Contains(mine, s.pod) || (s.pod == runningPod{} && len(mine) == 0)) {
		err := s.process.CheckRunning()
		if err != nil && !s.endedOnce {
			s.endedOnce = true // Its pod may have been deleted since the pods were listed.
			return nil
		}
		return err
	}

	if s.process != nil {
		// Its token is invalid, so it may already have ended.
		var ended *cluster.EndedError
		if err := s.process.Stop(); err != nil && !errors.As(err, &ended) {
			return err
		}
		s.process, s.endedOnce = nil, false
	}

	if len(mine) == 0 {
		return nil
	}

	kubeconfig, err := k.writePodKubeconfig(ctx, s.name, mine[0])
	if err != nil {
		return nil //nolint:nilerr // The pod may have been deleted since the pods were listed; otherwise the next sync retries.
	}

	s.pod = mine[0]
	return k.startProcess(s, k.versions[s.pod.image], kubeconfig)
}

// listRunningPods returns the running pods that are not being deleted.
func (k *fakeKubelet) listRunningPods(ctx context.Context) ([]runningPod, error) {
	out, err := k.demo.Kubectl(ctx, "get", "pods", "-A", "-o", `jsonpath={range .items[?(@.status.phase=="Running")]}`+
		`{.metadata.deletionTimestamp}|{.metadata.namespace}|{.metadata.name}|{.metadata.uid}|{.spec.serviceAccountName}|{.spec.nodeName}|{.spec.containers[0].image}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}

	var pods []runningPod
	for line := range strings.Lines(out) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 7 && f[0] == "" {
			pods = append(pods, runningPod{namespace: f[1], name: f[2], uid: f[3], account: f[4], node: f[5], image: f[6]})
		}
	}

	return pods, nil
}

// writePodKubeconfig writes a kubeconfig with a token of a pod and returns its path.
func (k *fakeKubelet) writePodKubeconfig(ctx context.Context, name string, p runningPod) (string, error) {
	file := filepath.Join(k.demo.dir, name+".kubeconfig")
	token, err := k.demo.Kubectl(ctx, "create", "token", p.account, "--namespace", p.namespace, "--duration=1h",
		"--bound-object-kind=Pod", "--bound-object-name="+p.name, "--bound-object-uid="+p.uid)
	if err != nil {
		return "", err
	}

	config, err := os.ReadFile(k.demo.Kubeconfig)
	if err == nil {
		err = os.WriteFile(file, config, 0o600)
	}
	if err != nil {
		return "", err
	}

	for _, args := range [][]string{
		{"config", "set-credentials", p.account, "--token", strings.TrimSpace(token)},
		{"config", "set-context", "--current", "--user", p.account},
	} {
		if _, err := k.demo.Kubectl(ctx, append(args, "--kubeconfig", file)...); err != nil {
			return "", err
		}
	}

	return file, nil
}

// checkAllAtVersion returns an error unless all components run in a version.
func (k *fakeKubelet) checkAllAtVersion(version string) error {
	for _, s := range k.processes {
		if s.process == nil || s.version != version {
			return fmt.Errorf("%s does not run in version %s", s.name, version)
		}
	}
	return nil
}

// checkNothingForbidden returns an error if the API server has rejected a request of a running
// component as forbidden, because a role lacks a right.
func (k *fakeKubelet) checkNothingForbidden() error {
	for _, s := range k.processes {
		data, err := os.ReadFile(k.demo.logPath(s.name))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data[s.logOffset:])) {
			if strings.Contains(line, "forbidden") {
				return fmt.Errorf("%s was refused something: %s", s.name, line)
			}
		}
	}

	return nil
}

// stopAll stops all processes in reverse order.
func (k *fakeKubelet) stopAll() error {
	var wrong []error
	for _, s := range slices.Backward(k.processes) {
		if s.process != nil {
			wrong = append(wrong, s.process.Stop())
		}
	}

	if k.updateService != nil {
		wrong = append(wrong, k.updateService.Stop())
	}
	return errors.Join(wrong...)
}
