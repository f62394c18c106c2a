// Package programs lists the programs that the multi-call binary contains besides its own command line: the components
// of Kubernetes, etcd and CoreDNS as their projects release them, and devcluster's own child processes.
//
// A program owns the process: it parses its arguments, installs its signal handlers and returns its exit code. Package
// components decides how a program is started.
package programs

import (
	_ "time/tzdata" // CronJobs name time zones, and the machine may have no zone files.

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // Users of kubectl authenticate with exec and OIDC plugins.
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of each component
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric of each component
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/mainstay-dev/mainstay/devcluster/internal/realnode"
	"github.com/mainstay-dev/mainstay/devcluster/internal/registry"
	"github.com/mainstay-dev/mainstay/devcluster/internal/simulated"
)

// Program runs until it ends and returns the exit code of the process. args[0] is the name by which it was called.
type Program func(args []string) int

// Lookup returns the program with the given name. ok is false for every other name, including devcluster's own.
func Lookup(name string) (program Program, ok bool) {
	if program, ok = commonPrograms[name]; !ok {
		program, ok = nodePrograms[name]
	}
	return program, ok
}

// commonPrograms are the programs that exist on every operating system, by name.
var commonPrograms = map[string]Program{
	"etcd":                    runEtcd,
	"kube-apiserver":          func([]string) int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func([]string) int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func([]string) int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 runKubectl,
	"coredns":                 runCoreDNS,

	registry.Program:          registry.Main,
	simulated.Program:         simulated.Main,
	realnode.InitProgram:      realnode.InitMain,
	realnode.CaretakerProgram: realnode.CaretakerMain,
}

// runEtcd runs etcd, which exits by itself on an error. It returns only after etcd was stopped.
func runEtcd(args []string) int {
	etcdmain.Main(args)
	return 0
}

// runKubectl does what kubectl's own main function does. It also reads -v early, so that plugins and kuberc log as
// usual.
func runKubectl(args []string) int {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(args)) // The flag itself reports a level that does not parse.
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // Prints and exits with kubectl's own code.
	}
	return 0
}
