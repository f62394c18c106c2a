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

	"github.com/mainstay-dev/mainstay/devcluster/internal/pki"
)

// templates are the configuration files of the node's programs, each with its reasons in it.
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

// dnsReadyPort of the gateway answers whether the name server knows the cluster.
const dnsReadyPort = "8181"

// values are what the templates name.
type values struct {
	Root              string // the folder of the files, inside of the node
	Gateway           string
	NodeIP            string
	NodeName          string
	Pods              string
	DNS               string
	Registry          string // the registry as the node reaches it
	PauseImage        string
	ContainerdSocket  string
	CNIPlugins        string
	ControlGroup      string
	CoreDNSKubeconfig string
	DNSReadyPort      string
	// Forward is whether the machine has name servers for what is not of the cluster.
	Forward bool
}

func (n *Node) values() values {
	addresses := n.config.Addresses
	return values{
		Root:              filepath.Join(nodeRoot, configFolder),
		Gateway:           addresses.Gateway().String(),
		NodeIP:            addresses.NodeIP().String(),
		NodeName:          NodeName,
		Pods:              addresses.Pods().String(),
		DNS:               addresses.DNS().String(),
		Registry:          n.config.NodeRegistry(),
		PauseImage:        n.pauseImage(),
		ContainerdSocket:  containerdSocket,
		CNIPlugins:        cniFolder(),
		ControlGroup:      controlGroup(identity(n.config.Dir)),
		CoreDNSKubeconfig: n.config.Dir.ComponentKubeconfig("coredns"),
		DNSReadyPort:      dnsReadyPort,
		Forward:           hasNameServer("/etc/resolv.conf"),
	}
}

// writeConfiguration writes every file of the node anew; what the node itself keeps stands in other folders.
func (n *Node) writeConfiguration() error {
	for _, folder := range []string{configFolder, readyFile} {
		if err := os.RemoveAll(n.folder(folder)); err != nil {
			return err
		}
	}

	for _, folder := range []string{libFolder, logFolder} {
		if err := os.MkdirAll(n.folder(folder), 0o755); err != nil { //nolint:gosec // As /var/lib and /var/log are.
			return err
		}
	}

	files := map[string][]byte{resolvConf: fmt.Appendf(nil, "nameserver %s\n", n.config.Addresses.Gateway())}
	for _, name := range []string{containerdConfig, cniConfig, kubeletConfig, kubeProxyConfig, corefile} {
		content, err := render(filepath.Base(name), n.values())
		if err != nil {
			return err
		}
		files[name] = content
	}

	hosts, err := render("hosts.toml", n.values())
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

	if err := writeFiles(n.folder(configFolder), files); err != nil {
		return err
	}

	return n.writeKubeconfigs()
}

// writeKubeconfigs writes those files that are read inside of the node, where the API server is reached by the gateway.
func (n *Node) writeKubeconfigs() error {
	server := "https://" + net.JoinHostPort(
		n.config.Addresses.Gateway().String(), strconv.Itoa(n.config.Addresses.APIServerPort))
	for name, pair := range map[string]pki.Pair{
		kubeletKubeconfig:   n.config.PKI.Kubelet,
		kubeProxyKubeconfig: n.config.PKI.KubeProxy,
	} {
		if err := pki.WriteKubeconfig(n.configFile(name), server, n.config.PKI.CA, pair); err != nil {
			return err
		}
	}

	return nil
}

func render(name string, values values) ([]byte, error) {
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

// hasNameServer reports whether a resolv.conf names a server to ask.
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
