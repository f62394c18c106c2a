package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// server is an API server with only the servers of Mainstay, a registry, and a loop that reports
// Deployments as available. The measurements therefore exclude the controllers of a real cluster.
type server struct {
	config   *rest.Config
	registry string

	dir          string
	cancel       context.CancelFunc
	controlPlane *envtest.Environment
	imageServer  *httptest.Server
	process      *exec.Cmd
}

// startServer starts the server with all state below a folder.
func startServer(ctx context.Context, dir string) (*server, error) {
	assets, err := filepath.Abs(filepath.Join("bin", "k8s"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}

	s := &server{dir: dir, controlPlane: &envtest.Environment{BinaryAssetsDirectory: assets}}
	// The default range of envtest has only 254 addresses.
	s.controlPlane.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	if s.config, err = s.controlPlane.Start(); err != nil {
		return nil, fmt.Errorf("starting an API server: %w", err)
	}

	s.config.QPS = -1
	s.imageServer = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	_, port, _ := strings.Cut(strings.TrimPrefix(s.imageServer.URL, "http://"), ":")
	s.registry = "localhost:" + port
	ctx, s.cancel = context.WithCancel(ctx)
	if err := s.startPrograms(ctx); err != nil {
		return nil, errors.Join(err, s.stopAll())
	}

	return s, nil
}

func (s *server) startPrograms(ctx context.Context) error {
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

	return s.startMainstay(ctx)
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

// startMainstay starts the servers and waits until they are ready.
func (s *server) startMainstay(ctx context.Context) error {
	catalogs, err := cluster.FreeAddress()
	if err != nil {
		return err
	}

	health, err := cluster.FreeAddress()
	if err != nil {
		return err
	}

	out, err := os.Create(filepath.Join(s.dir, "mainstay.log"))
	if err != nil {
		return err
	}
	defer out.Close()
	s.process = exec.Command(filepath.Join("bin", "mainstay"), "run", "all", "--kubeconfig", s.kubeconfigPath(),
		"--catalogs-server-addr", catalogs, "--health-probe-bind-address", health, "--metrics-bind-address", "0", "--cache-dir", filepath.Join(s.dir, "cache"))
	s.process.Stdout, s.process.Stderr = out, out
	if err := s.process.Start(); err != nil {
		return err
	}

	return waitForReady(ctx, "http://"+health+"/readyz")
}

func (s *server) mainstayPID() int { return s.process.Process.Pid }

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

func (s *server) stopAll() error {
	var err error
	if s.process != nil && s.process.Process != nil {
		err = errors.Join(s.process.Process.Signal(os.Interrupt), s.process.Wait())
	}
	s.cancel()
	s.imageServer.Close()
	return errors.Join(err, s.controlPlane.Stop())
}
