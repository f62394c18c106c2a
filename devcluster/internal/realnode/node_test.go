package realnode

import (
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
	"github.com/mainstay-dev/mainstay/devcluster/internal/pki"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

func newTestNode(t *testing.T) *Node {
	t.Helper()
	dir := state.Dir(t.TempDir())
	must(t, dir.Create())
	addresses := state.Addresses{
		APIServerPort: 6443, RegistryPort: 5001, Block: netip.MustParsePrefix("10.201.0.0/16"),
	}
	certificates, err := pki.Ensure(dir.PKI(), pki.Names{
		KubernetesService: addresses.Services().Addr().Next(), Gateway: addresses.Gateway(),
		NodeName: NodeName, NodeIP: addresses.NodeIP(),
	})
	must(t, err)

	return &Node{config: components.Config{
		Dir: dir, Addresses: addresses, PKI: certificates, Kubeconfig: dir.ComponentKubeconfig,
	}}
}

func TestConfigurationIsComplete(t *testing.T) {
	node := newTestNode(t)
	must(t, node.writeConfiguration())
	must(t, node.writeConfiguration()) // The next run writes it again.
	read := func(name string) string {
		t.Helper()
		content, err := os.ReadFile(node.configPathOnHost(name))
		must(t, err)
		if strings.Contains(string(content), "<no value>") {
			t.Errorf("%s uses a value that does not exist:\n%s", name, content)
		}

		return string(content)
	}

	for _, name := range []string{kubeletConfig, kubeProxyConfig, kubeletKubeconfig, kubeProxyKubeconfig} {
		var object struct{ Kind string }
		if err := yaml.Unmarshal([]byte(read(name)), &object); err != nil || object.Kind == "" {
			t.Errorf("%s: got kind %q, error %v; want a kind", name, object.Kind, err)
		}
	}

	var network struct{ Plugins []struct{ Type string } }
	if err := json.Unmarshal([]byte(read(cniConfig)), &network); err != nil || len(network.Plugins) != 2 {
		t.Errorf("%s: got plugins %v, error %v", cniConfig, network.Plugins, err)
	}

	for name, want := range map[string]string{
		containerdConfig:    `sandbox_image = "localhost:5001/devcluster/pause:1"`,
		corefile:            "bind 10.201.192.1",
		resolvConf:          "nameserver 10.201.192.1",
		kubeletConfig:       "10.201.128.10",
		kubeletKubeconfig:   "https://10.201.192.1:6443",
		kubeProxyKubeconfig: "https://10.201.192.1:6443",
		filepath.Join(registryHosts, "localhost:5001", "hosts.toml"):    `server = "https://10.201.192.1:5001"`,
		filepath.Join(registryHosts, "10.201.192.1:5001", "hosts.toml"): `ca = "/run/devcluster/etc/ca.crt"`,
	} {
		if content := read(name); !strings.Contains(content, want) {
			t.Errorf("%s: want %s, got:\n%s", name, want, content)
		}
	}
}

func TestRuleArguments(t *testing.T) {
	var got []string
	for _, rule := range newFirewallRules("abc123", "10.201.0.0/16") {
		got = append(got, strings.Join(rule.iptablesArgs("-I", "abc123"), " "))
	}

	want := []string{
		"-w -t filter -I INPUT -i mdc-abc123 -m comment --comment devcluster-abc123 -j ACCEPT",
		"-w -t filter -I FORWARD -i mdc-abc123 -m comment --comment devcluster-abc123 -j ACCEPT",
		"-w -t filter -I FORWARD -o mdc-abc123 -m comment --comment devcluster-abc123 -j ACCEPT",
		"-w -t nat -I POSTROUTING -s 10.201.0.0/16 ! -o mdc-abc123 -m comment --comment devcluster-abc123 -j MASQUERADE",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestClusterIdentity(t *testing.T) {
	one, two := clusterIdentity("/data/one"), clusterIdentity("/data/two")
	if one == two || one != clusterIdentity("/data/one") {
		t.Errorf("got identities %s and %s, want a stable one for each data directory", one, two)
	}
	if name := hostInterfaceName(one); len(name) > 15 {
		t.Errorf("%s is too long for an interface", name)
	}
}

func TestCleanupOfNothing(t *testing.T) {
	dir := state.Dir(t.TempDir())
	must(t, dir.Create())
	must(t, Cleanup(dir)) // It must not require root.
}

func TestRemoveControlGroupTree(t *testing.T) {
	root := filepath.Join(t.TempDir(), "devcluster")
	must(t, os.MkdirAll(filepath.Join(root, "kubepods", "burstable", "pod1"), 0o700))
	must(t, os.MkdirAll(filepath.Join(root, "kubepods", "besteffort"), 0o700))
	must(t, removeControlGroupTree(root))
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("got error %v for the group, want that it does not exist", err)
	}

	must(t, removeControlGroupTree(root))
}

func TestHasNameServer(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          bool
	}{
		{"empty", "", false},
		{"one", "search example.org\nnameserver 192.0.2.1\n", true},
		{"commented out", "# nameserver 192.0.2.1\n", false},
		{"without an address", "nameserver\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			must(t, os.WriteFile(path, []byte(test.content), 0o600))
			if got := hasNameServer(path); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}

	if hasNameServer(filepath.Join(t.TempDir(), "none")) {
		t.Error("got true for a file that does not exist, want false")
	}
}

func TestAPIServerProxyForwards(t *testing.T) {
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	go func() { // It echoes the received data.
		connection, err := server.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		_, _ = io.Copy(connection, connection)
	}()

	proxy, err := startAPIServerProxy(netip.AddrPortFrom(loopback, 0), netip.MustParseAddrPort(server.Addr().String()))
	must(t, err)
	client, err := net.Dial("tcp4", proxy.listener.Addr().String())
	must(t, err)
	defer client.Close()
	_, err = io.WriteString(client, "hello")
	must(t, err)
	must(t, client.(*net.TCPConn).CloseWrite())
	if got, err := io.ReadAll(client); err != nil || string(got) != "hello" {
		t.Errorf("got %q and error %v, want hello", got, err)
	}

	proxy.close()
	if _, err := net.Dial("tcp4", proxy.listener.Addr().String()); err == nil {
		t.Error("got a connection to a closed proxy, want an error")
	}

	none := &Node{}
	none.apiServerProxy.close() // The proxy of a node that never started can be closed.
}
