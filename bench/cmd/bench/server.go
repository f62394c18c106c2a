package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// server is an API server with only the servers of Mainstay, a registry, and a loop that reports
// Deployments as available. The measurements therefore exclude the controllers of a real cluster.
type server struct {
	// config is the configuration of the clients of this process, whose requests are counted.
	config   *rest.Config
	registry string

	dir          string
	cancel       context.CancelFunc
	controlPlane *envtest.Environment
	imageServer  *httptest.Server
	// mainstay is the program that startServer starts.
	mainstay *program
	programs []*program
	// ownRequests is the number of requests of this process, except watches.
	ownRequests atomic.Int64
}

// startServer starts the server and all servers of Mainstay, with all state below a folder.
func startServer(ctx context.Context, dir string) (*server, error) {
	s, err := startControlPlane(ctx, dir)
	if err != nil {
		return nil, err
	}

	catalogs, err := cluster.FreeAddress()
	if err == nil {
		s.mainstay, err = s.startProgram(ctx, "all", "--catalogs-server-addr", catalogs)
	}
	if err != nil {
		return nil, errors.Join(err, s.stopAll())
	}

	return s, nil
}

// startControlPlane starts the server without servers of Mainstay. It installs the CRDs of the given
// folders.
func startControlPlane(ctx context.Context, dir string, crds ...string) (*server, error) {
	assets, err := filepath.Abs(filepath.Join("bin", "k8s"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}

	s := &server{dir: dir, controlPlane: &envtest.Environment{BinaryAssetsDirectory: assets, CRDDirectoryPaths: crds, ErrorIfCRDPathMissing: true}}
	// The default range of envtest has only 254 addresses.
	apiServer := s.controlPlane.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	if auditLog != "" {
		policy := filepath.Join(dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return nil, err
		}
		apiServer.Set("audit-policy-file", policy).Set("audit-log-path", auditLog)
	}

	if err := env.EnableAggregation(s.controlPlane, dir); err != nil {
		return nil, err
	}
	if s.config, err = s.controlPlane.Start(); err != nil {
		return nil, fmt.Errorf("starting an API server: %w", err)
	}

	s.config.QPS = -1
	s.config.Wrap(s.countOwnRequests)
	s.imageServer = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	_, port, _ := strings.Cut(strings.TrimPrefix(s.imageServer.URL, "http://"), ":")
	s.registry = "localhost:" + port
	ctx, s.cancel = context.WithCancel(ctx)
	if err := s.prepareClients(ctx); err != nil {
		return nil, errors.Join(err, s.stopAll())
	}

	return s, nil
}

// auditLog is the file to which the API server logs its requests. If it is empty, it logs none.
var auditLog string

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// countOwnRequests counts the requests of a transport, except watches.
func (s *server) countOwnRequests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if !r.URL.Query().Has("watch") {
			s.ownRequests.Add(1)
		}
		return next.RoundTrip(r)
	})
}

// prepareClients writes a kubeconfig, and starts the loop that reports Deployments as available.
func (s *server) prepareClients(ctx context.Context) error {
	user, err := s.controlPlane.AddUser(envtest.User{Name: "bench", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}

	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.kubeconfigPath(), kubeconfig, 0o600); err != nil {
		return err
	}

	client, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return err
	}

	deployments, err := client.AppsV1().Deployments(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	go func() {
		for event := range deployments.ResultChan() {
			if deployment, ok := event.Object.(*appsv1.Deployment); ok && deployment.Status.ObservedGeneration != deployment.Generation {
				markAvailable(ctx, client, deployment)
			}
		}
	}()

	return nil
}

// markAvailable reports a Deployment as available, in place of the cluster's controllers and
// nodes.
func markAvailable(ctx context.Context, client kubernetes.Interface, deployment *appsv1.Deployment) {
	replicas := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}

	_, err := client.AppsV1().Deployments(deployment.Namespace).UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		log.Printf("bench: making Deployment %s/%s available: %v", deployment.Namespace, deployment.Name, err)
	}
}

func (s *server) kubeconfigPath() string { return filepath.Join(s.dir, "kubeconfig") }

// program is a running server of Mainstay.
type program struct {
	process *exec.Cmd
	// anonymous is its peak anonymous memory so far, in MB.
	anonymous atomic.Uint64
}

// startProgram starts a server of Mainstay and waits until it is ready.
func (s *server) startProgram(ctx context.Context, component string, args ...string) (*program, error) {
	health, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}

	out, err := os.Create(filepath.Join(s.dir, component+".log"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	args = append([]string{
		"run", component, "--kubeconfig", s.kubeconfigPath(), "--health-probe-bind-address", health,
		"--metrics-bind-address", "0", "--cache-dir", filepath.Join(s.dir, "cache"),
	}, args...)
	p := &program{process: exec.Command(filepath.Join("bin", "mainstay"), args...)}
	p.process.Stdout, p.process.Stderr = out, out
	if err := p.process.Start(); err != nil {
		return nil, err
	}

	s.programs = append(s.programs, p)
	go p.sampleAnonymous(ctx)
	return p, waitForReady(ctx, "http://"+health+"/readyz")
}

// sampleAnonymous samples the anonymous memory until the program ends, because Linux records only the peak of the total.
func (p *program) sampleAnonymous(ctx context.Context) {
	for sleepContext(ctx, 5*time.Millisecond) {
		_, anonymous, err := readProcessMemory(p.processID())
		if err != nil {
			return
		}
		p.anonymous.Store(max(p.anonymous.Load(), uint64(anonymous)))
	}
}

// peakAnonymous returns the peak anonymous memory so far, in MB.
func (p *program) peakAnonymous() uint64 { return p.anonymous.Load() }

func (p *program) processID() int { return p.process.Process.Pid }

// stopProgram stops the program. It has no effect on one that was stopped.
func (p *program) stopProgram() error {
	if p.process.ProcessState != nil {
		return nil
	}
	return errors.Join(p.process.Process.Signal(os.Interrupt), p.process.Wait())
}

func (s *server) mainstayPID() int { return s.mainstay.processID() }

// runMainstay runs a mainstay command.
func (s *server) runMainstay(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "mainstay"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfigPath())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mainstay %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// readMetrics returns the metrics of the API server.
func (s *server) readMetrics(ctx context.Context) (string, error) {
	client, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return "", err
	}
	data, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	return string(data), err
}

// requestCount is a number of requests that the API server has answered, except watches and requests for leases.
type requestCount struct {
	total float64
	// byServer is the number of requests in total that the API server sends itself.
	byServer float64
}

func (c requestCount) requestsSince(before requestCount) requestCount {
	return requestCount{total: c.total - before.total, byServer: c.byServer - before.byServer}
}

// countAPIRequests returns the number of requests that the API server has answered. Each call adds one request.
func (s *server) countAPIRequests(ctx context.Context) (requestCount, error) {
	var count requestCount
	out, err := s.readMetrics(ctx)
	if err != nil {
		return count, err
	}

	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "apiserver_request_total{") || strings.Contains(line, `verb="WATCH"`) || strings.Contains(line, `resource="leases"`) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		if err != nil {
			return count, fmt.Errorf("reading the API server's metrics: %w", err)
		}
		count.total += value
		if isServerRequest(line) {
			count.byServer += value
		}
	}

	return count, nil
}

// isServerRequest reports whether a metric counts requests that only the API server sends: for each CRD its conditions and
// APIServices, and for each Service its IPAddress.
func isServerRequest(metric string) bool {
	if strings.Contains(metric, `verb="GET"`) || strings.Contains(metric, `verb="LIST"`) {
		return false
	}
	return strings.Contains(metric, `resource="apiservices"`) || strings.Contains(metric, `resource="ipaddresses"`) ||
		strings.Contains(metric, `resource="customresourcedefinitions"`) && strings.Contains(metric, `subresource="status"`)
}

// countForeignRequests returns the number of requests that the API server has answered to others than
// this process.
func (s *server) countForeignRequests(ctx context.Context) (requestCount, error) {
	count, err := s.countAPIRequests(ctx)
	// The request for the metrics is not part of them yet.
	count.total -= float64(s.ownRequests.Load() - 1)
	return count, err
}

func (s *server) stopAll() error {
	var err error
	for _, p := range slices.Backward(s.programs) {
		err = errors.Join(err, p.stopProgram())
	}
	s.cancel()
	s.imageServer.Close()
	return errors.Join(err, s.controlPlane.Stop())
}
