package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// launch starts `mainstay run` of a version, and logs to a file that is continued. A kubeconfig
// says who it acts as.
func (d *demo) launch(version, name, kubeconfig string, args ...string) (*cluster.Process, error) {
	cmd := exec.Command(d.program(version), append([]string{"run"}, args...)...) // It outlives the step that starts it.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	return cluster.Launch(name, d.log(name), cmd)
}

func (d *demo) program(version string) string { return filepath.Join(d.programs, version, "mainstay") }

func (d *demo) log(name string) string { return filepath.Join(d.dir, name+".log") }

// pod is one that a simulated node marks as running.
type pod struct{ namespace, name, uid, account, node, image string }

// server is a component of the payload: whose pods it stands for, and what it is started with.
type server struct {
	name string
	// account is the ServiceAccount of its pods, node the node that they are on: empty is any.
	account, node string
	args          func(version string) []string

	// pod is the one that the process stands for. The zero value: none does, or it was started
	// before there was one.
	pod     pod
	version string
	process *cluster.Process
	// logged is how much had been logged before.
	logged int64
	// suspect: it was seen to have ended while its pod was there.
	suspect bool
}

// kubelet runs the components as processes: each as long as its pod is there, in the version of the
// pod's image, and with a token of the pod. So it may do what the roles of the release let it do, and
// no more.
type kubelet struct {
	demo  *demo
	nodes []string
	// versions of the releases by the images of their components.
	versions map[string]string
	servers  []*server
	updates  *cluster.Process
}

// add adds what is to run once it has a pod.
func (k *kubelet) add(s *server) *server {
	k.servers = append(k.servers, s)
	return s
}

// run starts a server in a version.
func (k *kubelet) run(s *server, version, kubeconfig string) error {
	if info, err := os.Stat(k.demo.log(s.name)); err == nil {
		s.logged = info.Size()
	}

	p, err := k.demo.launch(version, s.name, kubeconfig, append(s.args(version), "--health-probe-bind-address=0", "--metrics-bind-address=0",
		"--cache-dir="+filepath.Join(k.demo.dir, "cache", s.name))...)
	if err != nil {
		return err
	}

	s.process, s.version = p, version
	return nil
}

// sync starts what has a new pod, and stops what has none any more.
func (k *kubelet) sync(ctx context.Context) error {
	if k.updates != nil {
		if err := k.updates.Alive(); err != nil {
			return err
		}
	}

	if len(k.servers) == 0 {
		return nil
	}

	pods, err := k.pods(ctx)
	if err != nil {
		return err
	}

	for _, s := range k.servers {
		if err := k.syncServer(ctx, s, pods); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}

	return nil
}

func (k *kubelet) syncServer(ctx context.Context, s *server, pods []pod) error {
	mine := slices.DeleteFunc(slices.Clone(pods), func(p pod) bool {
		return p.account != s.account || (s.node != "" && p.node != s.node) || k.versions[p.image] == ""
	})
	if s.process != nil && (slices.Contains(mine, s.pod) || (s.pod == pod{} && len(mine) == 0)) {
		err := s.process.Alive()
		if err != nil && !s.suspect {
			s.suspect = true // Its pod may have gone since the pods were read.
			return nil
		}
		return err
	}

	if s.process != nil {
		// Its token counts no more, and it may have ended by that.
		var ended *cluster.EndedError
		if err := s.process.Stop(); err != nil && !errors.As(err, &ended) {
			return err
		}
		s.process, s.suspect = nil, false
	}

	if len(mine) == 0 {
		return nil
	}

	kubeconfig, err := k.login(ctx, s.name, mine[0])
	if err != nil {
		return nil //nolint:nilerr // The pod has gone since the pods were read; if not, it is tried again.
	}

	s.pod = mine[0]
	return k.run(s, k.versions[s.pod.image], kubeconfig)
}

// pods are those that run and are not to go.
func (k *kubelet) pods(ctx context.Context) ([]pod, error) {
	out, err := k.demo.Kubectl(ctx, "get", "pods", "-A", "-o", `jsonpath={range .items[?(@.status.phase=="Running")]}`+
		`{.metadata.deletionTimestamp}|{.metadata.namespace}|{.metadata.name}|{.metadata.uid}|{.spec.serviceAccountName}|{.spec.nodeName}|{.spec.containers[0].image}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}

	var pods []pod
	for line := range strings.Lines(out) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 7 && f[0] == "" {
			pods = append(pods, pod{namespace: f[1], name: f[2], uid: f[3], account: f[4], node: f[5], image: f[6]})
		}
	}

	return pods, nil
}

// login returns a kubeconfig with a token of a pod.
func (k *kubelet) login(ctx context.Context, name string, p pod) (string, error) {
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

// allAt fails until all components run in a version.
func (k *kubelet) allAt(version string) error {
	for _, s := range k.servers {
		if s.process == nil || s.version != version {
			return fmt.Errorf("%s does not run in version %s", s.name, version)
		}
	}
	return nil
}

// refused fails when the API server has forbidden something to a component that runs: a role lacks
// a right.
func (k *kubelet) refused() error {
	for _, s := range k.servers {
		data, err := os.ReadFile(k.demo.log(s.name))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data[s.logged:])) {
			if strings.Contains(line, "forbidden") {
				return fmt.Errorf("%s was refused something: %s", s.name, line)
			}
		}
	}

	return nil
}

// stop ends everything, what was started last first.
func (k *kubelet) stop() error {
	var wrong []error
	for _, s := range slices.Backward(k.servers) {
		if s.process != nil {
			wrong = append(wrong, s.process.Stop())
		}
	}

	if k.updates != nil {
		wrong = append(wrong, k.updates.Stop())
	}
	return errors.Join(wrong...)
}
