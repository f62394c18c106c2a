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

// server is an API server with nothing beside it but the servers of Mainstay, a registry,
// and a loop that says of each Deployment that it is available. So what is measured is
// this project's work, and not that of the cluster's controllers.
type server struct {
	config   *rest.Config
	registry string

	dir     string
	end     context.CancelFunc
	control *envtest.Environment
	images  *httptest.Server
	process *exec.Cmd
}

// startServer starts it with all state below a folder.
func startServer(ctx context.Context, dir string) (*server, error) {
	assets, err := filepath.Abs(filepath.Join("bin", "k8s"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}

	s := &server{dir: dir, control: &envtest.Environment{BinaryAssetsDirectory: assets}}
	// The range that is usual for tests has 254 addresses.
	s.control.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	if s.config, err = s.control.Start(); err != nil {
		return nil, fmt.Errorf("starting an API server: %w", err)
	}

	s.config.QPS = -1
	s.images = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	_, port, _ := strings.Cut(strings.TrimPrefix(s.images.URL, "http://"), ":")
	s.registry = "localhost:" + port
	ctx, s.end = context.WithCancel(ctx)
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}

	return s, nil
}

func (s *server) begin(ctx context.Context) error {
	user, err := s.control.AddUser(envtest.User{Name: "bench", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}

	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.kubeconfig(), kubeconfig, 0o600); err != nil {
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
				makeAvailable(ctx, client, deployment)
			}
		}
	}()

	return s.serve(ctx)
}

// makeAvailable plays the cluster's controllers and nodes.
func makeAvailable(ctx context.Context, client kubernetes.Interface, deployment *appsv1.Deployment) {
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

func (s *server) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// serve starts the servers and waits until catalogs can be added.
func (s *server) serve(ctx context.Context) error {
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
	s.process = exec.Command(filepath.Join("bin", "mainstay"), "run", "all", "--kubeconfig", s.kubeconfig(),
		"--catalogs-server-addr", catalogs, "--health-probe-bind-address", health, "--metrics-bind-address", "0", "--cache-dir", filepath.Join(s.dir, "cache"))
	s.process.Stdout, s.process.Stderr = out, out
	if err := s.process.Start(); err != nil {
		return err
	}

	return awaitReady(ctx, "http://"+health+"/readyz")
}

func (s *server) pid() int { return s.process.Process.Pid }

// mainstay runs a command of it.
func (s *server) mainstay(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "mainstay"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mainstay %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// metrics are those of the API server.
func (s *server) metrics(ctx context.Context) (string, error) {
	client, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return "", err
	}
	data, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	return string(data), err
}

func (s *server) stop() error {
	var err error
	if s.process != nil && s.process.Process != nil {
		err = errors.Join(s.process.Process.Signal(os.Interrupt), s.process.Wait())
	}
	s.end()
	s.images.Close()
	return errors.Join(err, s.control.Stop())
}
