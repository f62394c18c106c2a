// Package programs is the list of programs that the multi-call binary carries besides its own command line: the parts of
// Kubernetes, etcd and CoreDNS as their projects release them, and devcluster's own child processes.
//
// A program owns the process: it parses the arguments itself, installs its own signal handlers and returns its exit code.
// Nothing here decides how a program is started; package components does.
package programs

import (
	_ "time/tzdata" // CronJobs name time zones, and the machine may have no zone files.

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's users log in with exec and OIDC plugins.
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

// Program runs to its end and returns the exit code of the process. args[0] is the name it was called by.
type Program func(args []string) int

// Lookup returns the program of that name. Ok is false for every other name, devcluster's own included.
func Lookup(name string) (program Program, ok bool) {
	if program, ok = table[name]; !ok {
		program, ok = nodeTable[name]
	}
	return program, ok
}

var table = map[string]Program{
	"etcd":                    etcd,
	"kube-apiserver":          func([]string) int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func([]string) int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func([]string) int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 runKubectl,
	"coredns":                 coreDNS,

	registry.Program:          registry.Main,
	simulated.Program:         simulated.Main,
	realnode.InitProgram:      realnode.InitMain,
	realnode.CaretakerProgram: realnode.CaretakerMain,
}

// etcd exits by itself on an error; coming back means that it was asked to stop.
func etcd(args []string) int {
	etcdmain.Main(args)
	return 0
}

// runKubectl does what kubectl's own main does, the early reading of -v included, so that plugins and kuberc log as usual.
func runKubectl(args []string) int {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(args)) // A level that does not parse is reported by the flag itself.
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // Prints and exits with kubectl's own code.
	}
	return 0
}
