package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// stopTime is how long a process may take to stop before it is killed.
const stopTime = 30 * time.Second

// process is a server that runs beside the cluster.
type process struct {
	cmd    *exec.Cmd
	name   string
	log    string
	exited chan struct{}
	// err is how it ended, once exited is closed.
	err error
}

// endedError is a process that ended by itself.
type endedError struct {
	name, log string
	err       error
}

func (e *endedError) Error() string {
	return fmt.Sprintf("%s ended by itself (%v): see %s", e.name, e.err, e.log)
}

func (e *endedError) Unwrap() error { return e.err }

// launch starts `mainstay run` of a version, and logs to a file that is continued.
func (d *demo) launch(version, name string, args ...string) (*process, error) {
	log := filepath.Join(d.dir, name+".log")
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{name: name, log: log, exited: make(chan struct{})}
	p.cmd = exec.Command(d.program(version), append([]string{"run"}, args...)...) // It outlives the step that starts it.
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+d.Kubeconfig)
	p.cmd.Stdout, p.cmd.Stderr = file, file
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (d *demo) program(version string) string { return filepath.Join(d.programs, version, "mainstay") }

// alive fails when the process has ended by itself.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return &endedError{name: p.name, log: p.log, err: p.err}
	default:
		return nil
	}
}

// stop ends the process as Kubernetes does.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // It may have ended by itself.
	select {
	case <-p.exited:
		if p.err != nil {
			return &endedError{name: p.name, log: p.log, err: p.err}
		}
		return nil
	case <-time.After(stopTime):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("%s did not stop within %s and was killed", p.name, stopTime)
	}
}

// answers tells whether an address answers by 200.
func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

// server is a component of the payload: what deploys it, and what it is started with here.
type server struct {
	name string
	// workload is the Deployment or DaemonSet whose image says which version runs.
	workload string
	args     func(version string) []string

	version string
	process *process
}

// kubelet runs the components as processes, in the versions that their Deployments name.
type kubelet struct {
	demo  *demo
	nodes []string
	// versions of the releases by the images of their components.
	versions map[string]string
	servers  []*server
	updates  *process
}

// add adds what is to run once its workload is there.
func (k *kubelet) add(name, workload string, args func(version string) []string) *server {
	s := &server{name: name, workload: workload, args: args}
	k.servers = append(k.servers, s)
	return s
}

// run starts a server in a version, in place of one that runs.
func (k *kubelet) run(s *server, version string) error {
	if s.process != nil {
		if err := s.process.stop(); err != nil {
			return err
		}
		s.process = nil
	}
	p, err := k.demo.launch(version, s.name, append(s.args(version), "--health-probe-bind-address=0", "--metrics-bind-address=0",
		"--cache-dir="+filepath.Join(k.demo.dir, "cache", s.name))...)
	if err != nil {
		return err
	}
	s.process, s.version = p, version
	return nil
}

// sync starts what has been deployed, and starts anew what has been deployed in another version.
func (k *kubelet) sync(ctx context.Context) error {
	var wrong []error
	for _, s := range k.servers {
		if s.process != nil {
			wrong = append(wrong, s.process.alive())
		}
	}
	if k.updates != nil {
		wrong = append(wrong, k.updates.alive())
	}
	if err := errors.Join(wrong...); err != nil || len(k.servers) == 0 {
		return err
	}
	deployed, err := k.demo.Kubectl(ctx, "get", "deployments,daemonsets", "-A", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.spec.template.spec.containers[0].image}{"\n"}{end}`)
	if err != nil {
		return err
	}
	images := map[string]string{}
	for line := range strings.Lines(deployed) {
		name, image, _ := strings.Cut(strings.TrimSpace(line), " ")
		images[name] = image
	}
	for _, s := range k.servers {
		if version := k.versions[images[s.workload]]; version != "" && version != s.version {
			if err := k.run(s, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// stop ends everything, what was started last first.
func (k *kubelet) stop() error {
	var wrong []error
	for i := range k.servers {
		if s := k.servers[len(k.servers)-1-i]; s.process != nil {
			wrong = append(wrong, s.process.stop())
		}
	}
	if k.updates != nil {
		wrong = append(wrong, k.updates.stop())
	}
	return errors.Join(wrong...)
}
