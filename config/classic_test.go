package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/run"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// unlisted are files that no kustomization lists, because clusters without Prometheus lack their kinds.
var unlisted = []string{"kustomization.yaml", "prometheusrule.yaml", "servicemonitor.yaml"}

// optional are folders that a user applies separately.
var optional = []string{"inline", "marketplace", "operatorhubio"}

// Each kustomization of OLM Classic must list every file and folder next to it.
func TestKustomizationsOfClassic(t *testing.T) {
	err := filepath.WalkDir("classic", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}

		data, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
		if err != nil {
			return err
		}

		var k struct{ Resources []string }
		if err := yaml.Unmarshal(data, &k); err != nil {
			return err
		}

		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}

		for _, entry := range entries {
			if name := entry.Name(); !slices.Contains(k.Resources, name) && !slices.Contains(unlisted, name) && !slices.Contains(optional, name) {
				t.Errorf("%s/kustomization.yaml does not list %s", dir, name)
			}
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kubectl runs kubectl against the API server of the tests, and returns its output.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tryKubectl is kubectl for a command that may fail.
func tryKubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	connection := env.Start(t)
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	file := clientcmdapi.NewConfig()
	file.Clusters["test"] = &clientcmdapi.Cluster{Server: connection.Host, CertificateAuthorityData: connection.CAData}
	file.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: connection.CertData, ClientKeyData: connection.KeyData}
	file.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	file.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*file, kubeconfig); err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "k8s", "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, failure.Bytes())
	}

	return string(out), nil
}

// kustomized returns the objects of the kustomization in a folder.
func kustomized(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(kubectl(t, "kustomize", dir), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		objects = append(objects, object)
	}

	return objects
}

// TestApplyClassic checks that a real API server accepts the manifests when kubectl applies them, and again.
func TestApplyClassic(t *testing.T) {
	for range 2 {
		for _, dir := range []string{"crd", ".", "inline", "operatorhubio", "marketplace"} {
			out := kubectl(t, "apply", "--server-side", "-k", filepath.Join("classic", dir))
			if dir == "." && !strings.Contains(out, "deployment.apps/catalog-operator serverside-applied") {
				t.Errorf("got the output %s, want that the Deployment of catalog-operator was applied", out)
			}
		}
	}
}

// 'kubectl explain' describes the fields of an Operator.
func TestExplainOperator(t *testing.T) {
	for field, want := range map[string]string{
		"":                        "Operator lists the components of an installed operator.",
		".status":                 "components are the objects that belong to the operator.",
		".status.components":      "references to the components, sorted by kind",
		".status.components.refs": "the conditions in the status of the component",
	} {
		if out := strings.Join(strings.Fields(kubectl(t, "explain", "operators.operators.coreos.com"+field)), " "); !strings.Contains(out, want) {
			t.Errorf("operator%s: got %s, want %q", field, out, want)
		}
	}
}

// Each Deployment must run an existing server with flags that it has, under the strictest pod security
// standard, and with an existing account that is bound to existing roles.
func TestDeploymentsOfClassic(t *testing.T) {
	c := env.Client(t, clientgoscheme.AddToScheme)
	strict := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := c.Create(t.Context(), strict); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}

	objects := append(kustomized(t, "classic"), kustomized(t, filepath.Join("classic", "marketplace"))...)
	names := map[string]bool{}
	for _, object := range objects {
		names[object.GetKind()+"/"+object.GetNamespace()+"/"+object.GetName()] = true
	}

	checked := 0
	for _, object := range objects {
		switch object.GetKind() {
		case "Deployment":
			checked++
			var deployment appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &deployment, true); err != nil {
				t.Fatal(err)
			}
			checkDeployment(t, c, strict.Name, &deployment)
			if account := "ServiceAccount/" + deployment.Namespace + "/" + deployment.Spec.Template.Spec.ServiceAccountName; !names[account] {
				t.Errorf("%s runs as %s, which does not exist", deployment.Name, account)
			}
		case "RoleBinding", "ClusterRoleBinding":
			ref, _, _ := unstructured.NestedStringMap(object.Object, "roleRef")
			role := ref["kind"] + "//" + ref["name"]
			if ref["kind"] == "Role" {
				role = "Role/" + object.GetNamespace() + "/" + ref["name"]
			}
			if !names[role] && !strings.HasPrefix(ref["name"], "system:") && ref["name"] != "extension-apiserver-authentication-reader" {
				t.Errorf("%s %s binds %s, which does not exist", object.GetKind(), object.GetName(), role)
			}
		}
	}

	if checked != 3 {
		t.Errorf("got %d Deployments, want 3", checked)
	}
}

func checkDeployment(t *testing.T, c client.Client, namespace string, deployment *appsv1.Deployment) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deployment.Name}, Spec: deployment.Spec.Template.Spec}
	pod.Spec.PriorityClassName = "" // The API server refuses a pod if its class does not exist.
	if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("a pod of %s: got error %v, want none", deployment.Name, err)
	}

	for _, container := range deployment.Spec.Template.Spec.Containers {
		if s := container.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("container %s of %s may write into its image", container.Name, deployment.Name)
		}
		if len(container.Args) < 2 || container.Args[0] != "run" {
			t.Fatalf("container %s of %s: got arguments %v, want run and a server", container.Name, deployment.Name, container.Args)
		}
		command := serverOf(container.Args[1])
		if command == nil {
			t.Errorf("container %s of %s runs %s, which does not exist", container.Name, deployment.Name, container.Args[1])
		} else if err := command.ParseFlags(container.Args[2:]); err != nil {
			t.Errorf("%s: %v", deployment.Name, err)
		}
	}
}

// serverOf returns the command of a server.
func serverOf(name string) *cobra.Command {
	for _, command := range run.NewCommand("test").Commands() {
		if command.Name() == name {
			return command
		}
	}
	return nil
}

// The marketplace must read its default catalogs from the folder at which the ConfigMap of the administrator is mounted.
func TestDefaultCatalogsAreMounted(t *testing.T) {
	var mounted string
	for _, object := range kustomized(t, filepath.Join("classic", "marketplace")) {
		if object.GetKind() != "Deployment" {
			continue
		}

		data, err := json.Marshal(object.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}

		var spec appsv1.DeploymentSpec
		if err := json.Unmarshal(data, &spec); err != nil {
			t.Fatal(err)
		}

		container := spec.Template.Spec.Containers[0]
		if len(container.VolumeMounts) != 1 || spec.Template.Spec.Volumes[0].ConfigMap.Name != "default-catalogs" {
			t.Fatalf("got the mounts %+v of the volumes %+v, want that of the ConfigMap default-catalogs", container.VolumeMounts, spec.Template.Spec.Volumes)
		}

		mounted = container.VolumeMounts[0].MountPath
		if !slices.Contains(container.Args, "--defaults-dir="+mounted) {
			t.Errorf("got arguments %v, want the folder %s in them", container.Args, mounted)
		}
	}

	if mounted == "" {
		t.Error("got no Deployment, want one")
	}
}
