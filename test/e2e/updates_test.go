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

// included has a cluster apply a manifest.
const included = `annotations: {include.release.openshift.io/self-managed-high-availability: "true"}`

// manifest is an object of a release. metadata lacks its closing brace.
func manifest(apiVersion, kind, metadata, rest string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: %s, %s}\n%s\n", apiVersion, kind, metadata, included, rest)
}

// note is a ConfigMap that tells the version of its release.
func note(name, labels string) string {
	return manifest("v1", "ConfigMap", "{name: "+name+", namespace: default"+labels, "data: {version: 0.0.1-snapshot}")
}

// clusterOperator is a part that an update waits for.
func clusterOperator(name string) string {
	return manifest("config.openshift.io/v1", "ClusterOperator", "{name: "+name, "spec: {}\nstatus: {versions: [{name: operator, version: 0.0.1-snapshot}]}")
}

// openSite makes what stands around the cluster, with two channels of two releases.
func (p *parts) openSite() *site.Site {
	p.t.Helper()
	s, err := site.Open(p.dir, "127.0.0.1", nil)
	if err != nil {
		p.t.Fatal(err)
	}

	p.t.Cleanup(func() { _ = s.Close() }) // A test may have closed it.
	if err := errors.Join(s.Channel("stable", "1.0.0", "1.0.1"), s.Channel("other", "1.0.0", "1.0.1")); err != nil {
		p.t.Fatal(err)
	}

	return s
}

// release is one that was built, pushed and signed.
type release struct {
	version, image string
	// manifests is the folder of what the image holds.
	manifests string
}

// release makes a release of files, built upon nothing, in a registry.
func (p *parts) release(s *site.Site, registry, version string, files map[string]string, args ...string) release {
	p.t.Helper()
	dir := p.file("platform/" + version)
	files["0000_05_trust_00_keys.yaml"] = s.Trust()
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

	printed := p.must(append([]string{"release", "new", "--from-dir", dir, "--name", version, "--to-image-base", "scratch",
		"--to-image", registry + "/platform/release:" + version, "-o", "json"}, args...)...)
	var pushed struct{ Reference string }
	if err := json.Unmarshal([]byte(printed), &pushed); err != nil || pushed.Reference == "" {
		p.t.Fatalf("%v: %s", err, printed)
	}

	made := release{version: version, image: pushed.Reference, manifests: p.file("released/" + version)}
	p.must("release", "sign", made.image, "--key", s.Key, "--to-store", s.Signatures)
	p.must("release", "extract", made.image, "--to", made.manifests)

	return made
}

// must runs a command that has to succeed.
func (p *parts) must(args ...string) string {
	p.t.Helper()
	out, err := p.Mainstay(p.t.Context(), args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// serveUpdates starts an update service, which finds the releases in a repository.
func (p *parts) serveUpdates(s *site.Site, repository string) *part {
	p.t.Helper()
	address, status := freeAddress(p.t), freeAddress(p.t)
	p.graphs = "http://" + address + "/api/upgrades_info/graph"
	updates := p.run("update-service", func(ctx context.Context) error { return cluster.Answers(ctx, "http://"+status+"/readyz") },
		"--releases", repository, "--graph-data", s.Data, "--address", address, "--status-address", status, "--cache-dir", p.file("updates"))
	updates.start()
	return updates
}

// install starts the operator, which installs a release, and makes the ClusterVersion.
func (p *parts) install(first release) *part {
	p.t.Helper()
	health := freeAddress(p.t)
	operator := p.run("cluster-version-operator", func(ctx context.Context) error { return cluster.Answers(ctx, "http://"+health+"/readyz") },
		"--release-image="+first.image, "--health-probe-bind-address="+health, "--metrics-bind-address=0", "--cache-dir="+p.file("cache"))
	operator.start()
	err := p.Apply(p.t.Context(), fmt.Sprintf(`
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec: {clusterID: 7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11, channel: stable, upstream: %q}
`, p.graphs))
	if err != nil {
		p.t.Fatal(err)
	}

	return operator
}

// report has a part of the platform say that it is well, at a version.
func (p *parts) report(name, version string) {
	p.t.Helper()
	var conditions []string
	for kind, status := range map[string]string{"Available": "True", "Degraded": "False", "Progressing": "False"} {
		conditions = append(conditions, fmt.Sprintf(`{"type":%q,"status":%q,"reason":"AsExpected","lastTransitionTime":"2030-01-02T03:04:05Z"}`, kind, status))
	}

	patch := fmt.Sprintf(`{"status":{"versions":[{"name":"operator","version":%q}],"conditions":[%s]}}`, version, strings.Join(conditions, ","))
	err := steps.Eventually(p.t.Context(), limit, func(ctx context.Context) error {
		_, err := p.Kubectl(ctx, "patch", "clusteroperator", name, "--subresource=status", "--type=merge", "--patch", patch)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// version is what a test looks at of the ClusterVersion.
type version struct {
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

func (v *version) history() string {
	var entries []string
	for _, entry := range v.Status.History {
		entries = append(entries, entry.Version+" "+entry.State)
	}
	return strings.Join(entries, ", ")
}

func (p *parts) version(ctx context.Context) (*version, error) {
	v := &version{}
	out, err := p.Kubectl(ctx, "get", "clusterversion", "version", "--request-timeout=5s", "-o", "json")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(out), v)
}

// await waits for a state of the ClusterVersion.
func (p *parts) await(what string, is func(*version) bool) *version {
	p.t.Helper()
	var last *version
	err := steps.Eventually(p.t.Context(), limit, func(ctx context.Context) error {
		v, err := p.version(ctx)
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

// isAt reports whether a release was applied completely.
func isAt(want string) func(*version) bool {
	return func(v *version) bool {
		return len(v.Status.History) > 0 && v.Status.History[0].Version == want && v.Status.History[0].State == "Completed"
	}
}

// has reports whether a condition is as wanted. An empty reason is any.
func has(condition, status, reason string) func(*version) bool {
	return func(v *version) bool {
		for _, c := range v.Status.Conditions {
			if c.Type == condition {
				return c.Status == status && (reason == "" || c.Reason == reason)
			}
		}
		return false
	}
}

// waitsFor reports whether the update waits for a ClusterOperator.
func waitsFor(name string) func(*version) bool {
	return func(v *version) bool {
		for _, c := range v.Status.Conditions {
			if c.Type == "Progressing" {
				return c.Status == "True" && strings.HasSuffix(c.Message, "waiting on "+name)
			}
		}
		return false
	}
}

// object is one of the cluster or of a release.
type object map[string]any

func (o object) metadata(field string) string {
	metadata, _ := o["metadata"].(map[string]any)
	text, _ := metadata[field].(string)
	return text
}

func (o object) key() string {
	return fmt.Sprintf("%s/%s/%s", o["kind"], o.metadata("namespace"), o.metadata("name"))
}

// objects are those of the cluster that a release names, by key.
func (p *parts) objects(of release) map[string]object {
	p.t.Helper()
	out, err := p.Kubectl(p.t.Context(), "get", "--ignore-not-found", "-f", of.manifests, "-o", "json")
	var list struct{ Items []object }
	if err := errors.Join(err, json.Unmarshal([]byte(out), &list)); err != nil {
		p.t.Fatal(err)
	}

	found := map[string]object{}
	for _, o := range list.Items {
		found[o.key()] = o
	}

	return found
}

// comparable are the objects of a release without what is another one on each cluster: ids and
// times, what a status says, and whom this site trusts.
func (p *parts) comparable(of release) map[string]object {
	p.t.Helper()
	found := p.objects(of)
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

// isAsReleased checks that the cluster has every object of a release as the release says, and
// none of them anew since before, but for some.
func (p *parts) isAsReleased(of release, before map[string]object, anew ...string) {
	p.t.Helper()
	live := p.objects(of)
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

		wanted := object{}
		if err := yaml.Unmarshal(data, &wanted); err != nil {
			p.t.Fatalf("%s: %v", file, err)
		}
		// Tombstones are no objects, and the status of a ClusterOperator is its operator's.
		if delete(wanted, "status"); bytes.Contains(data, []byte("release.openshift.io/delete")) {
			continue
		}

		key := wanted.key()
		is := live[key]
		if difference := lacks(map[string]any(is), map[string]any(wanted), key); difference != "" || is.metadata("deletionTimestamp") != "" {
			p.t.Errorf("%s is not as released: %s", key, difference)
		}
		if was := before[key]; was != nil && was.metadata("uid") != is.metadata("uid") && !slices.Contains(anew, key) {
			p.t.Errorf("%s was lost and made anew", key)
		}

		checked++
	}

	if checked == 0 {
		p.t.Errorf("release %s has no objects", of.version)
	}
}

// lacks tells what of a wanted value is not there. What is there beside it is others'.
func lacks(is, wanted any, where string) string {
	switch wanted := wanted.(type) {
	case map[string]any:
		has, _ := is.(map[string]any)
		for name, value := range wanted {
			if text := lacks(has[name], value, where+"."+name); text != "" {
				return text
			}
		}
	case []any:
		has, _ := is.([]any)
		if len(has) != len(wanted) {
			return fmt.Sprintf("%s has %d elements, not %d", where, len(has), len(wanted))
		}
		for i := range wanted {
			if text := lacks(has[i], wanted[i], fmt.Sprintf("%s[%d]", where, i)); text != "" {
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
