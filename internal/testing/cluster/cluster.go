// Package cluster runs the built programs as a user would: an embedded cluster, the servers of
// Mainstay on it, and commands against it. The demo, the end-to-end tests and the benchmarks
// share it.
//
// It is not for unit tests, which use an API server of package env.
package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// stopTimeout is the time after which a stopping program is killed.
const stopTimeout = 30 * time.Second

// Options configures a Cluster.
type Options struct {
	// Bin is the folder of the built programs. Required.
	Bin string
	// Dir is the folder of all state. Required.
	Dir string
	// Node is simulated, containerd or none. The default is simulated.
	Node string
	// Nodes is the number of simulated nodes. The default is one.
	Nodes int
	// Audit makes the API server log the requests of service accounts to AuditLog.
	Audit bool
	// Out receives the output of devcluster; nil discards it.
	Out io.Writer
}

// Cluster is a running embedded cluster.
type Cluster struct {
	// Kubeconfig is the kubeconfig file of the administrator.
	Kubeconfig string
	// Registry is the address of the image registry, as host:port. With a real node, pods can
	// reach it too.
	Registry string

	files
	opts    Options
	servers *Server
}

// Up starts a cluster. The caller must call Down, even if a later call returns an error.
func Up(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Node == "" {
		opts.Node = "simulated"
	}
	if opts.Out == nil {
		opts.Out = io.Discard
	}

	c := &Cluster{files: files{dir: opts.Dir}, opts: opts}
	args := []string{"up", "--detach", "--data-dir", c.clusterDataDir(), "--node", opts.Node}
	if opts.Nodes > 0 {
		args = append(args, "--nodes", strconv.Itoa(opts.Nodes))
	}
	if opts.Audit {
		args = append(args, "--audit")
	}

	cmd := c.newCommand(ctx, "devcluster", args...)
	var failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = opts.Out, &failure
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("devcluster up: %w\n%s", err, failure.String())
	}

	out, err := c.Run(ctx, "devcluster", "status", "--data-dir", c.clusterDataDir(), "-o", "json")
	if err != nil {
		return nil, errors.Join(err, c.Down(ctx))
	}

	var status struct{ Registry, NodeRegistry, Kubeconfig string }
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		return nil, errors.Join(fmt.Errorf("reading devcluster's status: %w", err), c.Down(ctx))
	}

	c.Kubeconfig = status.Kubeconfig
	if status.NodeRegistry != "" {
		c.Registry = status.NodeRegistry
		return c, c.writeRegistryCA(ctx)
	}

	_, port, err := net.SplitHostPort(status.Registry)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("devcluster's registry: %w", err), c.Down(ctx))
	}

	c.Registry = "localhost:" + port
	return c, nil
}

// Attach returns a cluster that was started elsewhere, to run commands against it.
func Attach(opts Options, kubeconfig, registry string) *Cluster {
	return &Cluster{Kubeconfig: kubeconfig, Registry: registry, files: files{dir: opts.Dir}, opts: opts}
}

// writeRegistryCA writes CertDir. On other addresses than localhost the registry uses TLS, with a
// certificate of the cluster's authority.
func (c *Cluster) writeRegistryCA(ctx context.Context) error {
	ca, err := os.ReadFile(c.CA())
	if err != nil {
		return errors.Join(err, c.Down(ctx))
	}

	dir := filepath.Join(c.CertDir(), c.Registry)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o644)); err != nil {
		return errors.Join(err, c.Down(ctx))
	}

	return nil
}

// Serve runs every server in one process outside of the cluster, with additional flags, and waits
// until they are ready.
func (c *Cluster) Serve(ctx context.Context, flags ...string) error {
	catalogs, err := FreeAddress()
	if err != nil {
		return err
	}

	c.servers, err = c.Start(ctx, c.ServersLog(), "all", append([]string{
		"--catalogs-server-addr", catalogs, "--metrics-bind-address", "0", "--cache-dir", filepath.Join(c.dir, "cache"),
	}, flags...)...)
	if err != nil {
		return err
	}

	return c.servers.AwaitReady(ctx)
}

// StopServers stops the servers that Serve started.
func (c *Cluster) StopServers() error {
	if c.servers == nil {
		return nil
	}
	defer func() { c.servers = nil }()
	return c.servers.Stop()
}

// Down stops the servers and the cluster, even if ctx has ended. It keeps their state.
func (c *Cluster) Down(ctx context.Context) error {
	err := c.StopServers()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stopTimeout)
	defer cancel()
	_, downErr := c.Run(ctx, "devcluster", "down", "--data-dir", c.clusterDataDir())
	return errors.Join(err, downErr)
}

// Mainstay runs a mainstay command and returns its output.
func (c *Cluster) Mainstay(ctx context.Context, args ...string) (string, error) {
	return c.Run(ctx, "mainstay", args...)
}

// Kubectl runs a kubectl command and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.Run(ctx, filepath.Join("k8s", "kubectl"), args...)
}

// Run runs a built program and returns its output. The error has its standard error.
func (c *Cluster) Run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := c.newCommand(ctx, program, args...)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return out.String(), &Error{Command: program + " " + strings.Join(args, " "), Stderr: strings.TrimSpace(failure.String()), Err: err}
	}
	return out.String(), nil
}

// Apply applies a manifest.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	cmd := c.newCommand(ctx, filepath.Join("k8s", "kubectl"), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, out)
	}
	return nil
}

func (c *Cluster) newCommand(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.Bin, program), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "NO_COLOR=1")
	return cmd
}

// Error is the error of a failed command.
type Error struct {
	Command, Stderr string
	Err             error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v\n%s", e.Command, e.Err, e.Stderr) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ServersPID returns the process ID of the servers that Serve started.
func (c *Cluster) ServersPID() int { return c.servers.PID() }
