package cli_test

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// checkInstalledAsPrinted compares the objects that `mainstay install` has written to the cluster with those that it prints with
// --dry-run=client. Applying the printed manifests once more must change no object, and no other object of these kinds
// may be of the installation.
func (c *fixture) checkInstalledAsPrinted() {
	c.T.Helper()
	printed := map[schema.GroupVersionKind]map[client.ObjectKey]bool{}
	for _, manifest := range c.printInstallation() {
		kind := manifest.GroupVersionKind()
		if printed[kind] == nil {
			printed[kind] = map[client.ObjectKey]bool{}
		}
		printed[kind][client.ObjectKeyFromObject(manifest)] = true
		c.checkUnchangedByApply(manifest)
	}

	for kind, keys := range printed {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		c.Must(c.List(c.T.Context(), list))
		for i := range list.Items {
			if object := &list.Items[i]; isInstalled(object) && !keys[client.ObjectKeyFromObject(object)] {
				c.T.Errorf("%s %s is installed and not printed", kind.Kind, client.ObjectKeyFromObject(object))
			}
		}
	}
}

// printInstallation returns the manifests that `mainstay install` prints.
func (c *fixture) printInstallation() []*unstructured.Unstructured {
	c.T.Helper()
	root := cli.NewCommand(cli.Options{})
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(words("install --dry-run=client -o yaml"))
	if code := terminal.Execute(c.T.Context(), root); code != 0 {
		c.T.Fatalf("printing the installation: got exit code %d, want 0", code)
	}

	var manifests []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(&out, 4096)
	for {
		manifest := &unstructured.Unstructured{}
		err := decoder.Decode(&manifest.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		c.Must(err)
		if len(manifest.Object) > 0 {
			manifests = append(manifests, manifest)
		}
	}

	if len(manifests) < 20 {
		c.T.Fatalf("got %d printed manifests, want at least 20", len(manifests))
	}
	return manifests
}

// checkUnchangedByApply checks that an object exists as in a manifest: the API server would not change it.
func (c *fixture) checkUnchangedByApply(manifest *unstructured.Unstructured) {
	c.T.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(manifest.GroupVersionKind())
	if err := c.Get(c.T.Context(), client.ObjectKeyFromObject(manifest), live); err != nil {
		c.T.Errorf("%s %s is printed and not installed: %v", manifest.GetKind(), manifest.GetName(), err)
		return
	}
	if !isInstalled(live) && isPlatformCRD(live) {
		return // The test environment has created it, and an installation keeps such a CRD.
	}

	applied := manifest.DeepCopy()
	err := c.Apply(c.T.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(action.InstallFieldManager), client.ForceOwnership, client.DryRunAll)
	c.Must(err)
	if diff := cmp.Diff(live.Object, applied.Object); diff != "" {
		c.T.Errorf("%s %s (-installed +as printed):\n%s", manifest.GetKind(), manifest.GetName(), diff)
	}
}

// isInstalled reports whether `mainstay install` has applied an object.
func isInstalled(object client.Object) bool {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == action.InstallFieldManager {
			return true
		}
	}
	return false
}

// isPlatformCRD reports whether an object is the CRD of a kind that other platforms define.
func isPlatformCRD(object *unstructured.Unstructured) bool {
	return object.GetKind() == "CustomResourceDefinition" && strings.HasSuffix(object.GetName(), ".openshift.io")
}
