package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/site"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// includeAnnotation makes a cluster apply a manifest.
const includeAnnotation = `annotations: {include.release.openshift.io/self-managed-high-availability: "true"}`

// formatManifest returns an object of a release. metadata lacks its closing brace.
func formatManifest(apiVersion, kind, metadata, rest string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: %s, %s}\n%s\n", apiVersion, kind, metadata, includeAnnotation, rest)
}

// versionConfigMap returns a ConfigMap with the version of its release.
func versionConfigMap(name, labels string) string {
	return formatManifest("v1", "ConfigMap", "{name: "+name+", namespace: default"+labels, "data: {version: 0.0.1-snapshot}")
}

// clusterOperatorManifest returns a ClusterOperator that an update waits for.
func clusterOperatorManifest(name string) string {
	return formatManifest("config.openshift.io/v1", "ClusterOperator", "{name: "+name, "spec: {}\nstatus: {versions: [{name: operator, version: 0.0.1-snapshot}]}")
}

// openSite creates the external services, with two channels of two releases.
func (p *processFixture) openSite() *site.Site {
	p.t.Helper()
	s, err := site.Open(p.dir, "127.0.0.1", nil)
	if err != nil {
		p.t.Fatal(err)
	}

	p.t.Cleanup(func() { _ = s.Close() }) // A test may already have closed it.
	if err := errors.Join(s.WriteChannel("stable", "1.0.0", "1.0.1"), s.WriteChannel("other", "1.0.0", "1.0.1")); err != nil {
		p.t.Fatal(err)
	}

	return s
}

// builtRelease is a release that was built, pushed and signed.
type builtRelease struct {
	version, image string
	// manifests is the folder with the content of the image.
	manifests string
}

// buildRelease builds a release of files, without a base image, in a registry.
func (p *processFixture) buildRelease(s *site.Site, registry, version string, files map[string]string, args ...string) builtRelease {
	p.t.Helper()
	dir := p.filePath("platform/" + version)
	files["0000_05_trust_00_keys.yaml"] = s.TrustManifest()
	if files["image-references"] == "" {
		files["image-references"] = `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1"}`
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}

	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}

	printed := p.runCommand(append([]string{"release", "new", "--from-dir", dir, "--name", version, "--to-image-base", "scratch",
		"--to-image", registry + "/platform/release:" + version, "-o", "json"}, args...)...)
	var pushed struct{ Reference string }
	if err := json.Unmarshal([]byte(printed), &pushed); err != nil || pushed.Reference == "" {
		p.t.Fatalf("%v: %s", err, printed)
	}

	built := builtRelease{version: version, image: pushed.Reference, manifests: p.filePath("released/" + version)}
	p.runCommand("release", "sign", built.image, "--key", s.Key, "--to-store", s.Signatures)
	p.runCommand("release", "extract", built.image, "--to", built.manifests)

	return built
}

// runCommand runs a command and fails the test if the command fails.
func (p *processFixture) runCommand(args ...string) string {
	p.t.Helper()
	out, err := p.Mainstay(p.t.Context(), args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// startUpdateService starts an update service for the releases in a repository.
func (p *processFixture) startUpdateService(s *site.Site, repository string) *managedProcess {
	p.t.Helper()
	address, status := reserveAddress(p.t), reserveAddress(p.t)
	p.graphURL = "http://" + address + "/api/upgrades_info/graph"
	updates := p.addServerProcess("update-service", func(ctx context.Context) error { return cluster.CheckURL(ctx, "http://"+status+"/readyz") },
		"--releases", repository, "--graph-data", s.Data, "--address", address, "--status-address", status, "--cache-dir", p.filePath("updates"))
	updates.start()
	return updates
}

// installRelease starts the operator, which installs a release, and creates the ClusterVersion.
func (p *processFixture) installRelease(first builtRelease) *managedProcess {
	p.t.Helper()
	health := reserveAddress(p.t)
	operator := p.addServerProcess("cluster-version-operator", func(ctx context.Context) error { return cluster.CheckURL(ctx, "http://"+health+"/readyz") },
		"--release-image="+first.image, "--health-probe-bind-address="+health, "--metrics-bind-address=0", "--cache-dir="+p.filePath("cache"))
	operator.start()
	err := p.Apply(p.t.Context(), fmt.Sprintf(`
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec: {clusterID: 7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11, channel: stable, upstream: %q}
`, p.graphURL))
	if err != nil {
		p.t.Fatal(err)
	}

	return operator
}

// reportOperator reports a ClusterOperator as available at a version.
func (p *processFixture) reportOperator(name, version string) {
	p.t.Helper()
	var conditions []string
	for kind, status := range map[string]string{"Available": "True", "Degraded": "False", "Progressing": "False"} {
		conditions = append(conditions, fmt.Sprintf(`{"type":%q,"status":%q,"reason":"AsExpected","lastTransitionTime":"2030-01-02T03:04:05Z"}`, kind, status))
	}

	patch := fmt.Sprintf(`{"status":{"versions":[{"name":"operator","version":%q}],"conditions":[%s]}}`, version, strings.Join(conditions, ","))
	err := steps.Eventually(p.t.Context(), stateTimeout, func(ctx context.Context) error {
		_, err := p.Kubectl(ctx, "patch", "clusteroperator", name, "--subresource=status", "--type=merge", "--patch", patch)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// clusterVersion has the fields of the ClusterVersion that tests read.
type clusterVersion struct {
	Status struct {
		Desired struct{ Version string }
		History []struct {
			Version, State string
			Verified       bool
		}
		AvailableUpdates []struct{ Version, Image string }
		Conditions       []struct{ Type, Status, Reason, Message string }
	}
}

func (v *clusterVersion) formatHistory() string {
	var entries []string
	for _, entry := range v.Status.History {
		entries = append(entries, entry.Version+" "+entry.State)
	}
	return strings.Join(entries, ", ")
}

func (p *processFixture) getClusterVersion(ctx context.Context) (*clusterVersion, error) {
	v := &clusterVersion{}
	out, err := p.Kubectl(ctx, "get", "clusterversion", "version", "--request-timeout=5s", "-o", "json")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(out), v)
}

// waitForVersion waits for a state of the ClusterVersion.
func (p *processFixture) waitForVersion(what string, is func(*clusterVersion) bool) *clusterVersion {
	p.t.Helper()
	var last *clusterVersion
	err := steps.Eventually(p.t.Context(), stateTimeout, func(ctx context.Context) error {
		v, err := p.getClusterVersion(ctx)
		if last = v; err == nil && !is(v) {
			err = errors.New("it is not yet")
		}
		return err
	})
	if err != nil {
		p.t.Fatalf("%s: %v: %+v", what, err, last.Status)
	}

	return last
}

// isAtVersion returns a condition that a release is completely applied.
func isAtVersion(want string) func(*clusterVersion) bool {
	return func(v *clusterVersion) bool {
		return len(v.Status.History) > 0 && v.Status.History[0].Version == want && v.Status.History[0].State == "Completed"
	}
}

// hasCondition returns a condition on a status condition. An empty reason matches any reason.
func hasCondition(condition, status, reason string) func(*clusterVersion) bool {
	return func(v *clusterVersion) bool {
		for _, c := range v.Status.Conditions {
			if c.Type == condition {
				return c.Status == status && (reason == "" || c.Reason == reason)
			}
		}
		return false
	}
}

// isWaitingFor returns a condition that the update waits for a ClusterOperator.
func isWaitingFor(name string) func(*clusterVersion) bool {
	return func(v *clusterVersion) bool {
		for _, c := range v.Status.Conditions {
			if c.Type == "Progressing" {
				return c.Status == "True" && strings.HasSuffix(c.Message, "waiting on "+name)
			}
		}
		return false
	}
}

// platformObject is an object of the cluster or of a release.
type platformObject map[string]any

func (o platformObject) metadataField(field string) string {
	metadata, _ := o["metadata"].(map[string]any)
	text, _ := metadata[field].(string)
	return text
}

func (o platformObject) key() string {
	return fmt.Sprintf("%s/%s/%s", o["kind"], o.metadataField("namespace"), o.metadataField("name"))
}

// listReleaseObjects returns the objects of the cluster that are in a release, by key.
func (p *processFixture) listReleaseObjects(of builtRelease) map[string]platformObject {
	p.t.Helper()
	out, err := p.Kubectl(p.t.Context(), "get", "--ignore-not-found", "-f", of.manifests, "-o", "json")
	var list struct{ Items []platformObject }
	if err := errors.Join(err, json.Unmarshal([]byte(out), &list)); err != nil {
		p.t.Fatal(err)
	}

	found := map[string]platformObject{}
	for _, o := range list.Items {
		found[o.key()] = o
	}

	return found
}

// comparableObjects returns the objects of a release without the fields that differ between
// clusters: IDs, times and statuses. It excludes the signature verification of this site.
func (p *processFixture) comparableObjects(of builtRelease) map[string]platformObject {
	p.t.Helper()
	found := p.listReleaseObjects(of)
	delete(found, "ConfigMap/openshift-config-managed/release-verification")
	for _, o := range found {
		delete(o, "status")
		metadata, _ := o["metadata"].(map[string]any)
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
			delete(metadata, field)
		}

		owners, _ := metadata["ownerReferences"].([]any)
		for _, owner := range owners {
			if o, ok := owner.(map[string]any); ok {
				delete(o, "uid")
			}
		}
	}

	return found
}

// checkAsReleased checks that the cluster has every object of a release with its released
// content. No object may have been recreated, except those in recreated.
func (p *processFixture) checkAsReleased(of builtRelease, before map[string]platformObject, recreated ...string) {
	p.t.Helper()
	live := p.listReleaseObjects(of)
	files, err := filepath.Glob(filepath.Join(of.manifests, "*.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}

	checked := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			p.t.Fatal(err)
		}

		wanted := platformObject{}
		if err := yaml.Unmarshal(data, &wanted); err != nil {
			p.t.Fatalf("%s: %v", file, err)
		}
		// Objects marked for deletion do not exist. Operators write the status of ClusterOperators.
		if delete(wanted, "status"); bytes.Contains(data, []byte("release.openshift.io/delete")) {
			continue
		}

		key := wanted.key()
		is := live[key]
		if difference := findMissing(map[string]any(is), map[string]any(wanted), key); difference != "" || is.metadataField("deletionTimestamp") != "" {
			p.t.Errorf("%s differs from the release: %s", key, difference)
		}
		if was := before[key]; was != nil && was.metadataField("uid") != is.metadataField("uid") && !slices.Contains(recreated, key) {
			p.t.Errorf("%s was deleted and recreated", key)
		}

		checked++
	}

	if checked == 0 {
		p.t.Errorf("release %s: got no objects, want some", of.version)
	}
}

// findMissing returns a difference between the wanted and the actual value, or an empty string.
// Additional fields of the actual value are ignored.
func findMissing(is, wanted any, where string) string {
	switch wanted := wanted.(type) {
	case map[string]any:
		has, _ := is.(map[string]any)
		for name, value := range wanted {
			if text := findMissing(has[name], value, where+"."+name); text != "" {
				return text
			}
		}
	case []any:
		has, _ := is.([]any)
		if len(has) != len(wanted) {
			return fmt.Sprintf("%s has %d elements, not %d", where, len(has), len(wanted))
		}
		for i := range wanted {
			if text := findMissing(has[i], wanted[i], fmt.Sprintf("%s[%d]", where, i)); text != "" {
				return text
			}
		}
	default:
		if is != wanted {
			return fmt.Sprintf("%s is %v, not %v", where, is, wanted)
		}
	}

	return ""
}
