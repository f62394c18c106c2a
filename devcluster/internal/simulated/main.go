package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/kwok/pkg/client/clientset/versioned"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/client"
)

// Program is the name by which the executable is called to simulate nodes.
const Program = "devcluster-nodes"

// Main simulates nodes until it gets an interrupt or SIGTERM. It returns the exit code.
func Main(args []string) int {
	var options options
	flags := pflag.NewFlagSet(Program, pflag.ContinueOnError)
	flags.StringVar(&options.kubeconfig, "kubeconfig", "", "kubeconfig file for the API server")
	flags.IntVar(&options.nodes, "nodes", 1, "number of nodes")
	flags.StringVar(&options.podNetwork, "pod-network", "", "network of the pods' addresses, in CIDR form")
	flags.StringVar(&options.nodeIP, "node-ip", "", "address of the first node; the others follow it")
	if err := flags.Parse(args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Program, err)
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx = log.NewContext(ctx, log.NewLogger(os.Stderr, log.LevelInfo))
	if err := runControllers(ctx, options); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Program, err)
		return 1
	}

	return 0
}

type options struct {
	kubeconfig string
	nodes      int
	podNetwork string
	nodeIP     string
}

// runControllers creates the nodes and runs kwok's controllers until ctx ends.
func runControllers(ctx context.Context, options options) error {
	nodeIP, err := netip.ParseAddr(options.nodeIP)
	if err != nil {
		return fmt.Errorf("--node-ip: %w", err)
	}

	config, err := newControllerConfig(options)
	if err != nil {
		return err
	}

	controller, err := controllers.NewController(config)
	if err != nil {
		return fmt.Errorf("prepare kwok's controllers: %w", err)
	}
	if err := ensureNodes(ctx, config.TypedClient, options.nodes, nodeIP); err != nil {
		return err
	}
	if err := controller.Start(ctx); err != nil {
		return fmt.Errorf("start kwok's controllers: %w", err)
	}

	<-ctx.Done()
	return nil
}

func newControllerConfig(options options) (controllers.Config, error) {
	stages, stagesErr := loadStages()
	clients, clientsErr := client.NewClientset("", options.kubeconfig)
	if err := errors.Join(stagesErr, clientsErr); err != nil {
		return controllers.Config{}, err
	}

	restConfig, err := clients.ToRESTConfig()
	if err != nil {
		return controllers.Config{}, err
	}

	dynamicClient, dynamicErr := clients.ToDynamicClient()
	mapper, mapperErr := clients.ToRESTMapper()
	restClient, restErr := rest.RESTClientFor(restConfig)
	typed, typedErr := kubernetes.NewForConfig(restConfig)
	kwok, kwokErr := versioned.NewForConfig(restConfig)
	if err := errors.Join(dynamicErr, mapperErr, restErr, typedErr, kwokErr); err != nil {
		return controllers.Config{}, err
	}

	return controllers.Config{
		Clock:                         clock.RealClock{},
		DynamicClient:                 dynamicClient,
		RESTClient:                    restClient,
		RESTMapper:                    mapper,
		ImpersonatingDynamicClient:    clients.ToImpersonatingDynamicClient(),
		ImpersonatingTypedClient:      clients.ToImpersonatingTypedClient(),
		TypedClient:                   typed,
		TypedKwokClient:               kwok,
		ManageNodesWithLabelSelector:  NodeLabel + "=" + NodeLabelValue,
		CIDR:                          options.podNetwork,
		NodeIP:                        options.nodeIP,
		LocalStages:                   stages,
		PodPlayStageParallelism:       8,
		NodePlayStageParallelism:      4,
		NodeLeaseDurationSeconds:      40, // the kubelet's default
		NodeLeaseParallelism:          4,
		PodsOnNodeSyncParallelism:     4,
		EnablePodsOnNodeSyncListPager: true,
		// The ID is the same at each start, so that kwok takes over a node's lease at once instead of after it expires.
		ID: Program,
	}, nil
}
