package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// TestDisconnected copies two releases, their image and their signatures in folders to the
// registry of a disconnected site. Then everything outside of the site is stopped: the registry
// in the releases, and the store of signatures. The cluster is installed, and updated with a
// private update service.
func TestDisconnected(t *testing.T) {
	requirePrograms(t, "hello-operator")
	p := newProcessFixture(t)
	s := p.openSite()
	outside, address := p.addRegistry("outside")
	outside.start()
	built := p.runCommand("image", "build", "--binary", filepath.Join(p.bin, "hello-operator"), "--push", address+"/platform/greeter:1", "-o", "name")
	greeter := strings.TrimSpace(built)
	platform := func() map[string]string {
		return map[string]string{
			"0000_30_greeter_00_note.yaml": versionConfigMap("greeter", ""),
			"0000_30_greeter_10_deployment.yaml": formatManifest("apps/v1", "Deployment", "{name: greeter, namespace: default",
				"spec: {replicas: 0, selector: {matchLabels: {app: greeter}}, template: {metadata: {labels: {app: greeter}}, spec: {containers: [{name: a, image: 'registry.example.com/greeter:latest'}]}}}"),
			"0000_30_greeter_90_operator.yaml": clusterOperatorManifest("greeter"),
			"image-references":                 `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","spec":{"tags":[{"name":"greeter","from":{"kind":"DockerImage","name":"registry.example.com/greeter:latest"}}]}}`,
		}
	}

	first := p.buildRelease(s, address, "1.0.0", platform(), "greeter="+greeter)
	second := p.buildRelease(s, address, "1.0.1", platform(), "greeter="+greeter, "--previous", "1.0.0")

	var mirrors, signatures string
	for _, r := range []builtRelease{first, second} {
		carry := p.filePath("carry/" + r.version)
		p.runCommand("release", "mirror", r.image, "--to-dir", carry, "--keyring", s.Keyring, "--store", s.Store)
		printed := p.runCommand("release", "mirror", "--from-dir", carry, "--to", p.Registry+"/site/releases")
		_, after, _ := strings.Cut(printed, "ImageDigestMirrorSet:")
		if mirrors = strings.TrimSpace(after); !strings.Contains(mirrors, "source: "+address+"/platform/release") {
			t.Fatalf("got no reference of the release in:\n%s", printed)
		}

		files, err := filepath.Glob(filepath.Join(carry, "config", "signature-*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("got the ConfigMaps with signatures %q (%v)", files, err)
		}

		signatures = files[0]
	}

	outside.kill()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// The operator's release contains the CRD of the mirrors. An administrator installs it first.
	for _, file := range []string{"config.openshift.io_imagedigestmirrorsets.yaml", "config.openshift.io_clusterversions.yaml", "config.openshift.io_clusteroperators.yaml"} {
		if _, err := p.Kubectl(t.Context(), "apply", "-f", filepath.Join(filepath.Dir(p.bin), "config", "platform", file)); err != nil {
			t.Fatal(err)
		}
	}

	p.applyManifest(mirrors)
	p.startUpdateService(s, p.Registry+"/site/releases")
	p.installRelease(first)
	p.reportOperator("greeter", "1.0.0")
	p.waitForVersion("the installation from the mirror", isAtVersion("1.0.0"))
	before := p.listReleaseObjects(first)
	p.waitForVersion("the update", func(v *clusterVersion) bool {
		return len(v.Status.AvailableUpdates) == 1 && strings.HasPrefix(v.Status.AvailableUpdates[0].Image, p.Registry+"/site/releases@")
	})
	p.runCommand("cluster", "upgrade", "--to", "1.0.1")
	p.waitForVersion("the release that nobody is known to have signed", hasCondition("ReleaseAccepted", "False", "RetrievePayload"))
	if _, err := p.Kubectl(t.Context(), "apply", "-f", signatures); err != nil {
		t.Fatal(err)
	}

	p.waitForVersion("the wait for the part", isWaitingFor("greeter"))
	p.reportOperator("greeter", "1.0.1")
	cv := p.waitForVersion("the update", isAtVersion("1.0.1"))
	if got := cv.formatHistory(); got != "1.0.1 Completed, 1.0.0 Completed" || !cv.Status.History[0].Verified {
		t.Errorf("got the history %s, the update verified: %v", got, cv.Status.History[0].Verified)
	}

	p.checkAsReleased(second, before)
	_, digest, _ := strings.Cut(greeter, "@")
	if err := cluster.CheckURL(t.Context(), "http://"+p.Registry+"/v2/site/releases/manifests/"+digest); err != nil {
		t.Errorf("reading the image of the release from the registry of the site: %v", err)
	}
}

// applyManifest applies a manifest.
func (p *processFixture) applyManifest(text string) {
	p.t.Helper()
	if err := p.Apply(p.t.Context(), text); err != nil {
		p.t.Fatal(err)
	}
}
