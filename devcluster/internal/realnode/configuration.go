package realnode

import (
	"bytes"
	"embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
	"github.com/mainstay-dev/mainstay/devcluster/internal/pki"
)

// templates are the configuration files of the node's programs. Their comments explain the settings.
//
//go:embed templates
var templates embed.FS

// Names of the node's configuration files.
const (
	containerdConfig    = "containerd.toml"
	cniConfig           = "cni/10-devcluster.conflist"
	kubeletConfig       = "kubelet.yaml"
	kubeletKubeconfig   = "kubelet.kubeconfig"
	kubeProxyConfig     = "kube-proxy.yaml"
	kubeProxyKubeconfig = "kube-proxy.kubeconfig"
	corefile            = "Corefile"
	resolvConf          = "resolv.conf"
	registryHosts       = "certs.d"
	caFile              = "ca.crt"
	kubeletCert         = "kubelet.crt"
	kubeletKey          = "kubelet.key"
)

// dnsReadyPort is the port of the gateway on which CoreDNS reports whether it has loaded the cluster's Services.
const dnsReadyPort = "8181"

// templateValues are the values that the templates use.
type templateValues struct {
	Root              string // the folder of the files, as a path in the node
	Gateway           string
	NodeIP            string
	NodeName          string
	Pods              string
	DNS               string
	Registry          string // the registry's address for the node
	PauseImage        string
	ContainerdSocket  string
	CNIPlugins        string
	ControlGroup      string
	CoreDNSKubeconfig string
	DNSReadyPort      string
	// Forward is set if the machine has DNS servers for names outside the cluster.
	Forward bool
}

func newTemplateValues(config components.Config) templateValues {
	addresses := config.Addresses
	return templateValues{
		Root:              filepath.Join(nodeRoot, configFolder),
		Gateway:           addresses.Gateway().String(),
		NodeIP:            addresses.NodeIP().String(),
		NodeName:          NodeName,
		Pods:              addresses.Pods().String(),
		DNS:               addresses.DNS().String(),
		Registry:          config.NodeRegistry(),
		PauseImage:        pauseImageReference(addresses),
		ContainerdSocket:  containerdSocket,
		CNIPlugins:        findCNIFolder(),
		ControlGroup:      controlGroupName(clusterIdentity(config.Dir)),
		CoreDNSKubeconfig: config.Dir.ComponentKubeconfig("coredns"),
		DNSReadyPort:      dnsReadyPort,
		Forward:           hasNameServer("/etc/resolv.conf"),
	}
}

// writeConfiguration replaces all configuration files of the node. The node's own data is in other folders and stays.
func (n *Node) writeConfiguration() error {
	for _, folder := range []string{configFolder, readyFile} {
		if err := os.RemoveAll(n.nodeDataPath(folder)); err != nil {
			return err
		}
	}

	for _, folder := range []string{libFolder, logFolder} {
		if err := os.MkdirAll(n.nodeDataPath(folder), 0o755); err != nil { //nolint:gosec // As /var/lib and /var/log are.
			return err
		}
	}

	files := map[string][]byte{resolvConf: fmt.Appendf(nil, "nameserver %s\n", n.config.Addresses.Gateway())}
	for _, name := range []string{containerdConfig, cniConfig, kubeletConfig, kubeProxyConfig, corefile} {
		content, err := renderTemplate(filepath.Base(name), newTemplateValues(n.config))
		if err != nil {
			return err
		}
		files[name] = content
	}

	hosts, err := renderTemplate("hosts.toml", newTemplateValues(n.config))
	if err != nil {
		return err
	}

	port := strconv.Itoa(n.config.Addresses.RegistryPort)
	for _, host := range []string{"localhost", "127.0.0.1", n.config.Addresses.Gateway().String()} {
		files[filepath.Join(registryHosts, net.JoinHostPort(host, port), "hosts.toml")] = hosts
	}

	for name, source := range map[string]string{
		caFile:      n.config.PKI.CA.CertFile,
		kubeletCert: n.config.PKI.KubeletServing.CertFile,
		kubeletKey:  n.config.PKI.KubeletServing.KeyFile,
	} {
		if files[name], err = os.ReadFile(source); err != nil {
			return err
		}
	}

	if err := writeFiles(n.nodeDataPath(configFolder), files); err != nil {
		return err
	}

	return n.writeKubeconfigs()
}

// writeKubeconfigs writes the kubeconfig files that are read in the node. They reach the API server through the
// gateway.
func (n *Node) writeKubeconfigs() error {
	server := "https://" + net.JoinHostPort(
		n.config.Addresses.Gateway().String(), strconv.Itoa(n.config.Addresses.APIServerPort))
	for name, pair := range map[string]pki.Pair{
		kubeletKubeconfig:   n.config.PKI.Kubelet,
		kubeProxyKubeconfig: n.config.PKI.KubeProxy,
	} {
		if err := pki.WriteKubeconfig(n.configPathOnHost(name), server, n.config.PKI.CA, pair); err != nil {
			return err
		}
	}

	return nil
}

func renderTemplate(name string, values templateValues) ([]byte, error) {
	parsed, err := template.ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}

	var content bytes.Buffer
	if err := parsed.Execute(&content, values); err != nil {
		return nil, err
	}

	return content.Bytes(), nil
}

// hasNameServer reports whether a resolv.conf file contains a nameserver.
func hasNameServer(path string) bool {
	content, err := os.ReadFile(path)
	if err != nil {
		return false
	}

	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "nameserver" {
			return true
		}
	}
	return false
}
