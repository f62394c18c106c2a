package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// scenarioStep is a line of the table.
type scenarioStep struct {
	what string
	do   func(context.Context) (string, error)
}

// systemNamespace is the namespace of the servers.
const systemNamespace = "olmv1-system"

// pollTimeout is the timeout for noticing a moved tag. The minimum poll interval is a minute plus
// jitter.
const pollTimeout = 2 * time.Minute

func (s *scenario) listSteps(fbc, bundles string) []scenarioStep {
	return []scenarioStep{
		{"A cluster and a registry start", s.startCluster},
		{"Two replicas of catalogd start", s.startReplicas},
		{"An image of the file-based catalog is built and pushed", func(ctx context.Context) (string, error) { return s.buildFBC(ctx, fbc) }},
		{"Images of the bundles and their catalog are built and pushed", func(ctx context.Context) (string, error) { return s.buildBundles(ctx, bundles) }},
		{"The catalogs are added, and are served", s.addCatalogs},
		{"Every served blob is compared with its source", s.compareAllCatalogs},
		{"Clients begin to read", s.startReaders},
		{"The tag moves, and is polled", s.moveTagAndWait},
		{"The first replica restarts", func(ctx context.Context) (string, error) { return s.restartReplica(ctx, 0) }},
		{"The second replica restarts", func(ctx context.Context) (string, error) { return s.restartReplica(ctx, 1) }},
		{"A catalog is disabled", s.disableCatalog},
		{"It is enabled again", s.enableCatalog},
		{"A replica is killed and starts without its registry", s.killReplica},
		{"A catalog is deleted, and nothing of it is left", s.deleteCatalog},
		{"Every served blob is compared once more", s.compareAllCatalogs},
		{"The clients stop", func(context.Context) (string, error) { return s.readers.stopAndReport() }},
	}
}

func (s *scenario) startCluster(ctx context.Context) (string, error) {
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: s.dir})
	if err != nil {
		return "", err
	}

	s.Cluster = c
	if _, err := c.Kubectl(ctx, "apply", "-f", filepath.Join("config", "crd")); err != nil {
		return "", err
	}

	_, err = c.Kubectl(ctx, "create", "namespace", systemNamespace)
	return "images go to " + c.Registry, err
}

func (s *scenario) startReplicas(ctx context.Context) (string, error) {
	s.replicas = &replicaSet{cluster: s.Cluster, dir: s.dir}
	if err := s.replicas.startAll(ctx, 2); err != nil {
		return "", err
	}

	var authority []byte
	err := waitFor(ctx, time.Minute, func(ctx context.Context) error {
		out, err := s.Kubectl(ctx, "get", "configmap", "-n", systemNamespace, "catalogd-service-ca", "-o", `jsonpath={.data.ca\.crt}`)
		authority = []byte(out)
		if err == nil && len(authority) == 0 {
			err = errors.New("the certificate authority is not published")
		}
		return err
	})
	if err != nil {
		return "", err
	}

	s.readers, err = newReaders(authority)
	return "one leads, both serve; " + s.replicas.service.listenAddress() + " stands for their Service", err
}

func (s *scenario) buildFBC(ctx context.Context, dir string) (string, error) {
	blobs, err := readFolderBlobs(dir)
	if err != nil {
		return "", err
	}

	s.fileCatalog = &catalog{name: "from-files", ref: s.Registry + "/scenario/files:latest", versions: [][]string{blobs}}
	if _, err := s.Mainstay(ctx, "catalog", "build", dir, "--push", s.fileCatalog.ref); err != nil {
		return "", err
	}

	return fmt.Sprintf("%d blobs", len(blobs)), nil
}

func (s *scenario) buildBundles(ctx context.Context, dir string) (string, error) {
	s.bundleCatalog = &catalog{name: "from-bundles", ref: s.Registry + "/scenario/bundles:latest"}
	if _, err := s.Mainstay(ctx, "catalog", "build", dir, "--push", s.bundleCatalog.ref); err != nil {
		return "", err
	}

	out, err := s.Mainstay(ctx, "catalog", "build", dir, "--push", s.bundleCatalog.ref, "--dry-run", "-o", "json")
	if err != nil {
		return "", err
	}

	blobs, err := readStreamBlobs(strings.NewReader(out))
	s.bundleCatalog.versions = [][]string{blobs}
	return fmt.Sprintf("%d blobs", len(blobs)), err
}

func (s *scenario) addCatalogs(ctx context.Context) (string, error) {
	for _, c := range []*catalog{s.fileCatalog, s.bundleCatalog} {
		began := time.Now()
		if _, err := s.Mainstay(ctx, "catalog", "add", c.name, "--image", c.ref, "--poll-interval", "1m", "--wait"); err != nil {
			return "", err
		}

		c.serving = time.Since(began)
		out, err := s.Kubectl(ctx, "get", "clustercatalog", c.name, "-o", "jsonpath={.status.urls.base}")
		if err != nil {
			return "", err
		}

		c.baseURL = out
		// The leader sets the condition. The other replica has the content soon after.
		if err := s.readers.waitUntilServed(ctx, s.replicas, c, time.Minute); err != nil {
			return "", err
		}
	}

	return fmt.Sprintf("after %.2f s and %.2f s", s.fileCatalog.serving.Seconds(), s.bundleCatalog.serving.Seconds()), nil
}

func (s *scenario) compareAllCatalogs(ctx context.Context) (string, error) {
	count := 0
	for _, c := range []*catalog{s.fileCatalog, s.bundleCatalog} {
		if c.deleted {
			continue
		}
		for _, r := range s.replicas.members {
			if err := s.readers.compareReplica(ctx, c, r.address); err != nil {
				return "", err
			}
			count += len(c.currentBlobs())
		}
	}

	return fmt.Sprintf("%d blobs of both replicas are equal", count), nil
}

func (s *scenario) startReaders(ctx context.Context) (string, error) {
	n := s.readers.startClients(ctx, s.fileCatalog, s.bundleCatalog)
	return fmt.Sprintf("%d clients read everything, compressed or not, and single packages", n), nil
}

// moveTagAndWait moves the tag of the file-based catalog to a catalog with one more package.
func (s *scenario) moveTagAndWait(ctx context.Context) (string, error) {
	more := filepath.Join(s.dir, "more")
	if err := os.MkdirAll(more, 0o755); err != nil {
		return "", err
	}

	text := `{"schema":"olm.package","name":"scenario","defaultChannel":"stable","icon":{"base64data":"` + base64.StdEncoding.EncodeToString([]byte("<svg/>")) + `","mediatype":"image/svg+xml"}}
{"schema":"olm.channel","package":"scenario","name":"stable","entries":[{"name":"scenario.v1.0.0"}]}
{"schema":"olm.bundle","package":"scenario","name":"scenario.v1.0.0","image":"registry.example.com/scenario:v1","properties":[{"type":"olm.package","value":{"packageName":"scenario","version":"1.0.0"}}]}
`
	if err := os.WriteFile(filepath.Join(more, "catalog.json"), []byte(text), 0o644); err != nil {
		return "", err
	}

	out, err := s.Run(ctx, "opm", "render", s.fileCatalog.ref, more)
	if err != nil {
		return "", err
	}

	all := filepath.Join(s.dir, "all")
	if err := errors.Join(os.MkdirAll(all, 0o755), os.WriteFile(filepath.Join(all, "catalog.json"), []byte(out), 0o644)); err != nil {
		return "", err
	}

	added, err := readStreamBlobs(strings.NewReader(text))
	if err != nil {
		return "", err
	}

	s.fileCatalog.addVersion(append(added, s.fileCatalog.currentBlobs()...))
	if _, err := s.Mainstay(ctx, "catalog", "build", all, "--push", s.fileCatalog.ref); err != nil {
		return "", err
	}

	began := time.Now()
	if err := s.readers.waitUntilServed(ctx, s.replicas, s.fileCatalog, pollTimeout); err != nil {
		return "", err
	}

	took := time.Since(began)
	s.fileCatalog.dropOldVersions()
	return fmt.Sprintf("both replicas serve the new content %.0f s after the push", took.Seconds()), nil
}

func (s *scenario) restartReplica(ctx context.Context, i int) (string, error) {
	before := s.readers.requests.Load()
	r := s.replicas.members[i]
	s.replicas.service.excludeReplica(r)
	defer s.replicas.service.excludeReplica(nil)
	if err := r.server.Stop(); err != nil {
		return "", err
	}
	if err := s.replicas.startReplica(ctx, r); err != nil {
		return "", err
	}

	began := time.Now()
	if err := r.server.AwaitReady(ctx); err != nil {
		return "", err
	}

	for _, c := range []*catalog{s.fileCatalog, s.bundleCatalog} {
		if err := s.readers.compareReplica(ctx, c, r.address); err != nil {
			return "", fmt.Errorf("it says that it is ready and does not serve what it served: %w", err)
		}
	}

	return fmt.Sprintf("ready after %.2f s; %d requests meanwhile, none failed", time.Since(began).Seconds(), s.readers.requests.Load()-before), nil
}

// disableCatalog makes a catalog unavailable after its clients have paused.
func (s *scenario) disableCatalog(ctx context.Context) (string, error) {
	s.readers.pauseReading(s.bundleCatalog)
	if err := setAvailabilityMode(ctx, s.Cluster, s.bundleCatalog.name, "Unavailable"); err != nil {
		return "", err
	}

	err := s.replicas.waitForEach(ctx, time.Minute, func(ctx context.Context, r *replica) error {
		return s.readers.checkNotServed(ctx, s.bundleCatalog, r.address)
	})
	if err != nil {
		return "", err
	}

	out, err := s.Kubectl(ctx, "get", "clustercatalog", s.bundleCatalog.name, "-o", `jsonpath={range .status.conditions[*]}{.type}={.status}/{.reason} {end}`)
	return "404 of both replicas; " + strings.TrimSpace(out), err
}

func (s *scenario) enableCatalog(ctx context.Context) (string, error) {
	if err := setAvailabilityMode(ctx, s.Cluster, s.bundleCatalog.name, "Available"); err != nil {
		return "", err
	}

	if err := s.readers.waitUntilServed(ctx, s.replicas, s.bundleCatalog, time.Minute); err != nil {
		return "", err
	}

	s.readers.resumeReading(s.bundleCatalog)
	return "served by both replicas, and read", nil
}

func setAvailabilityMode(ctx context.Context, c *cluster.Cluster, catalog, mode string) error {
	_, err := c.Kubectl(ctx, "patch", "clustercatalog", catalog, "--type=merge", "-p", `{"spec":{"availabilityMode":"`+mode+`"}}`)
	return err
}

// killReplica kills a replica. Its connections break, so its clients have moved to the other
// replica before.
func (s *scenario) killReplica(ctx context.Context) (string, error) {
	r := s.replicas.members[0]
	s.replicas.service.excludeReplica(r)
	defer s.replicas.service.excludeReplica(nil)
	s.readers.reconnectClients()
	err := waitFor(ctx, time.Minute, func(context.Context) error {
		if n := s.replicas.service.countConnections(r); n > 0 {
			return fmt.Errorf("%d clients are still connected", n)
		}
		return nil
	})
	if err != nil {
		return "", err
	}

	r.server.Kill()
	began := time.Now()
	conf, err := writeBlockingRegistriesConf(s.dir, s.Registry)
	if err != nil {
		return "", err
	}
	if err := s.replicas.startReplica(ctx, r, "--registries-conf", conf); err != nil {
		return "", err
	}
	if err := r.server.AwaitReady(ctx); err != nil {
		return "", err
	}

	for _, c := range []*catalog{s.fileCatalog, s.bundleCatalog} {
		if err := s.readers.compareReplica(ctx, c, r.address); err != nil {
			return "", err
		}
	}

	return fmt.Sprintf("serves what it served after %.2f s, though the registry is blocked for it", time.Since(began).Seconds()), nil
}

// writeBlockingRegistriesConf writes a registries.conf that blocks the registry, and returns its
// path.
func writeBlockingRegistriesConf(dir, registry string) (string, error) {
	name := filepath.Join(dir, "blocked.conf")
	text := fmt.Sprintf("[[registry]]\nlocation = %q\nblocked = true\n", registry)
	return name, os.WriteFile(name, []byte(text), 0o644)
}

func (s *scenario) deleteCatalog(ctx context.Context) (string, error) {
	s.readers.pauseReading(s.bundleCatalog)
	s.bundleCatalog.deleted = true
	if _, err := s.Mainstay(ctx, "catalog", "delete", s.bundleCatalog.name, "--wait"); err != nil {
		return "", err
	}

	err := s.replicas.waitForEach(ctx, time.Minute, func(ctx context.Context, r *replica) error {
		if err := s.readers.checkNotServed(ctx, s.bundleCatalog, r.address); err != nil {
			return err
		}
		return r.checkNoFilesOf(s.bundleCatalog.name)
	})
	if err != nil {
		return "", err
	}

	return "404 of both replicas, and no file on either's disk", nil
}
