package programs

import (
	"flag"
	"net/netip"
	"testing"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
	"github.com/mainstay-dev/mainstay/devcluster/internal/pki"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

func testConfig(t *testing.T) components.Config {
	t.Helper()
	dir := state.Dir(t.TempDir())
	if err := dir.Create(); err != nil {
		t.Fatal(err)
	}

	addresses := state.Addresses{
		EtcdPort: 20001, APIServerPort: 20002, ControllerManagerPort: 20003, SchedulerPort: 20004, RegistryPort: 20005,
		Block: netip.MustParsePrefix("10.201.0.0/16"),
	}
	certificates, err := pki.Ensure(dir.PKI(), pki.Names{
		KubernetesService: addresses.Services().Addr().Next(), Gateway: addresses.Gateway(), NodeIP: addresses.NodeIP(),
	})
	if err != nil {
		t.Fatal(err)
	}

	return components.Config{Dir: dir, Addresses: addresses, PKI: certificates, Kubeconfig: dir.ComponentKubeconfig}
}

// TestArgumentsAreUnderstood parses each component's arguments with the flags of its program. A flag that a newer
// Kubernetes has removed fails this test, and is not only found in the log of a cluster that does not start.
func TestArgumentsAreUnderstood(t *testing.T) {
	config := testConfig(t)
	for _, test := range []struct {
		component components.Component
		command   *cobra.Command
	}{
		{config.APIServer(), apiserver.NewAPIServerCommand()},
		{config.ControllerManager(), controllermanager.NewControllerManagerCommand()},
		{config.Scheduler(), scheduler.NewSchedulerCommand()},
	} {
		t.Run(test.component.Name, func(t *testing.T) {
			if err := test.command.ParseFlags(test.component.Args); err != nil {
				t.Error(err)
			}
			if rest := test.command.Flags().Args(); len(rest) != 0 {
				t.Errorf("got the arguments %q besides flags, want none", rest)
			}
		})
	}

	t.Run("etcd", func(t *testing.T) {
		flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
		embed.NewConfig().AddFlags(flags)
		if err := flags.Parse(config.Etcd().Args); err != nil {
			t.Error(err)
		}
	})
}

// TestEveryComponentHasAProgram checks that devcluster has a program for the name by which each component is started.
func TestEveryComponentHasAProgram(t *testing.T) {
	config := testConfig(t)
	for _, component := range []components.Component{
		config.Etcd(), config.APIServer(), config.ControllerManager(), config.Scheduler(), config.Registry(true), config.Nodes(1),
	} {
		if _, ok := Lookup(component.Program); !ok {
			t.Errorf("%s: got no program %s, want one", component.Name, component.Program)
		}
	}

	if _, ok := Lookup("devcluster"); ok {
		t.Error("got a program for the name devcluster, want none")
	}
}
