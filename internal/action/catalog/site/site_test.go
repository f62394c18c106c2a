package site_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/site"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// newBlobs returns a package with one version, an SVG icon and metadata.
func newBlobs(name, icon, metadata string) string {
	const blobs = `{"schema":"olm.package","name":%[1]q,"defaultChannel":"stable","icon":{"base64data":%[2]q,"mediatype":"image/svg+xml"}}
{"schema":"olm.channel","package":%[1]q,"name":"stable","entries":[{"name":"v1"}]}
{"schema":"olm.bundle","package":%[1]q,"name":"v1","image":"example.com/a:1","properties":[{"type":"olm.package","value":{"packageName":%[1]q,"version":"1.0.0"}},{"type":"olm.csv.metadata","value":%[3]s}]}
`
	return fmt.Sprintf(blobs, name, icon, metadata)
}

const (
	passiveIcon = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjxwYXRoIGQ9Ik0wIDAiLz48L3N2Zz4="
	activeIcon  = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjxzY3JpcHQ+YWxlcnQoMSk8L3NjcmlwdD48L3N2Zz4="
)

var assets = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}, "assets/a-1.js": {Data: []byte("1")}}

// writeSite writes the site of a catalog. It returns the files and the result with the omitted content.
func writeSite(t *testing.T, blobs string) (map[string]string, *site.Written) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	write := &site.Write{Metas: fbc.Read(strings.NewReader(blobs), "catalog.json", fbc.Limits{}), Assets: assets, Name: "hub", Dir: dir}
	written, err := write.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	files := map[string]string{}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, written
}

func TestWrite(t *testing.T) {
	blobs := newBlobs("argocd", passiveIcon, `{"displayName":"Argo CD","installModes":[{"type":"AllNamespaces","supported":true}]}`) +
		newBlobs("own", passiveIcon, `{"installModes":[{"type":"OwnNamespace","supported":true}],"annotations":{"operatorframework.io/suggested-namespace":"mine"}}`) +
		newBlobs("several", passiveIcon, `{"installModes":[{"type":"MultiNamespace","supported":true}]}`)
	files, written := writeSite(t, blobs)
	var icon string
	for name := range files {
		if strings.HasPrefix(name, "icons/") {
			icon = name
		}
	}
	want := []string{
		"assets/a-1.js", "data/packages.json", "data/packages/argocd.json", "data/packages/own.json", "data/packages/several.json", icon, "index.html",
		"install/argocd/clusterextension.yaml", "install/argocd/subscription.yaml", "install/own/clusterextension.yaml", "install/own/subscription.yaml",
		"install/several/subscription.yaml",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("the files differ (-want +got):\n%s", diff)
	}
	if written.Packages != 3 || len(written.Problems) > 0 {
		t.Errorf("got %+v, want three packages without problems", written)
	}

	const extension = `apiVersion: v1
kind: Namespace
metadata:
  name: argocd
---
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata:
  name: argocd
spec:
  namespace: argocd
  source:
    catalog:
      packageName: argocd
    sourceType: Catalog
`
	if diff := cmp.Diff(extension, files["install/argocd/clusterextension.yaml"]); diff != "" {
		t.Errorf("the ClusterExtension differs (-want +got):\n%s", diff)
	}
	const subscription = `apiVersion: v1
kind: Namespace
metadata:
  name: mine
---
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata:
  name: own
  namespace: mine
spec:
  targetNamespaces:
  - mine
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata:
  name: own
  namespace: mine
spec:
  channel: stable
  name: own
  source: hub
  sourceNamespace: olm
`
	if diff := cmp.Diff(subscription, files["install/own/subscription.yaml"]); diff != "" {
		t.Errorf("the Subscription differs (-want +got):\n%s", diff)
	}
	if !strings.Contains(files["install/own/clusterextension.yaml"], "watchNamespace: mine") {
		t.Errorf("got %s, want the namespace that it watches", files["install/own/clusterextension.yaml"])
	}

	again, _ := writeSite(t, blobs)
	if diff := cmp.Diff(files, again); diff != "" {
		t.Errorf("the same catalog results in other files (-first +second):\n%s", diff)
	}
}

// A catalog can neither write files outside of the site, nor put a script into it.
func TestWriteFromHostileCatalog(t *testing.T) {
	blobs := newBlobs("../../escaped", passiveIcon, "{}") + newBlobs("scripted", activeIcon, `{"displayName":"</script><script>alert(1)</script>","description":"<img src=x>"}`) +
		newBlobs("broken", passiveIcon, "[]") + newBlobs("__proto__", passiveIcon, "{}")
	files, written := writeSite(t, blobs)
	for name := range files {
		if strings.Contains(name, "escaped") || strings.Contains(name, "proto") || strings.HasPrefix(name, "icons/") {
			t.Errorf("got the file %s, want none for this package or icon", name)
		}
	}
	if len(written.Problems) != 4 {
		t.Errorf("got the problems %q, want one for each package", written.Problems)
	}

	var list struct {
		Packages []struct{ Name, Icon, DisplayName string }
	}
	if err := json.Unmarshal([]byte(files["data/packages.json"]), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Packages) != 1 || list.Packages[0].Icon != "" || strings.Contains(files["data/packages.json"], "<script") {
		t.Errorf("got %s, want the package without its icon", files["data/packages.json"])
	}
}

func TestWriteKeepsOtherFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write := &site.Write{Metas: fbc.Read(strings.NewReader(""), "catalog.json", fbc.Limits{}), Assets: assets, Name: "hub", Dir: dir}
	if _, err := write.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "it is not empty") {
		t.Errorf("got error %v, want that the folder is not empty", err)
	}
}
