package packageserver_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// TestKubectl runs the usual commands of kubectl.
func TestKubectl(t *testing.T) {
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	kubectl := checkout.FindProgram(t, filepath.Join(root, "bin", "k8s", "kubectl"))
	f := newFixture(t)
	address, _ := serveCatalog(t, folderOf(t, simple("papaya", "1.0.0")))
	f.catalog(f.namespace, "red", address)
	f.untilPackages(f.namespace, "red/papaya")
	kubeconfig := kubeconfigOf(t, f.config)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), kubectl, append([]string{"--kubeconfig", kubeconfig, "-n", f.namespace}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr.String())
		}

		return string(out)
	}

	for _, of := range []struct {
		args []string
		want []string
	}{
		{[]string{"get", "packagemanifests"}, []string{"NAME", "CATALOG", "AGE", "papaya", "The red"}},
		{[]string{"get", "packagemanifest", "papaya", "-o", "jsonpath={.status.defaultChannel} {.status.channels[0].entries[0].version}"}, []string{"stable 1.0.0"}},
		{[]string{"get", "packagemanifest", "--selector=catalog=red", "--field-selector", "metadata.name=papaya", "-o", "yaml"}, []string{"catalogSource: red", "kind: PackageManifest"}},
		{[]string{"describe", "packagemanifests", "papaya"}, []string{"Default Channel:", "Current CSV:", "papaya.v1.0.0"}},
		{[]string{"explain", "packagemanifest.status.channels"}, []string{"currentCSV", "entries", "channels of the package, sorted by name"}},
		{[]string{"api-resources", "--api-group=packages.operators.coreos.com", "-o", "wide"}, []string{"packagemanifests", "PackageManifest", "get,list,watch", "true"}},
		{[]string{"wait", "packagemanifest/papaya", "--for=jsonpath={.status.packageName}=papaya", "--timeout=60s"}, []string{"condition met"}},
	} {
		out := run(of.args...)
		for _, want := range of.want {
			if !strings.Contains(out, want) {
				t.Errorf("kubectl %s: got no %q in:\n%s", strings.Join(of.args, " "), want, out)
			}
		}
	}
}

func kubeconfigOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path)
	if err != nil {
		t.Fatal(err)
	}

	return path
}

// Real catalogs are served whole.
func TestRealCatalogs(t *testing.T) {
	dir := checkout.SharedData(t, "fbc")
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}

	f := newFixture(t)
	address, _ := serveCatalog(t, dir)
	f.catalog(f.namespace, "real", address)
	var want []string
	for _, name := range names {
		want = append(want, "real/"+name.Name())
	}

	f.untilPackages(f.namespace, want...)
	var list packagesv1.PackageManifestList
	if err := f.client.List(t.Context(), &list, client.InNamespace(f.namespace)); err != nil {
		t.Fatal(err)
	}

	for i := range list.Items {
		p := &list.Items[i]
		if len(p.Status.Channels) == 0 || p.Status.DefaultChannel == "" || p.Labels["provider"] == "" {
			t.Errorf("%s has %d channels, default %q, and the provider %q", p.Name, len(p.Status.Channels), p.Status.DefaultChannel, p.Labels["provider"])
		}
		for _, channel := range p.Status.Channels {
			d := channel.CurrentCSVDesc
			if len(channel.Entries) == 0 || channel.CurrentCSV == "" || d.DisplayName == "" || d.LongDescription == "" || len(d.InstallModes) == 0 || len(d.RelatedImages) == 0 {
				t.Errorf("channel %s of %s has an incomplete description", channel.Name, p.Name)
			}
			if d.Icon != nil {
				t.Errorf("channel %s of %s has an icon", channel.Name, p.Name)
			}
		}
		if text, err := json.Marshal(p); err != nil || len(text) < 1000 {
			t.Errorf("%s has %d bytes: %v", p.Name, len(text), err)
		}
	}
}
