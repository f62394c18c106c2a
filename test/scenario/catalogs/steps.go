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

// step is a line of the table.
type step struct {
	what string
	do   func(context.Context) (string, error)
}

// namespace of the servers.
const namespace = "olmv1-system"

// pollTime is how long a moved tag may take to be noticed: the shortest interval is a
// minute, to which its jitter comes.
const pollTime = 2 * time.Minute

func (s *scenario) steps(fbc, bundles string) []step {
	return []step{
		{"A cluster and a registry start", s.start},
		{"Two replicas of catalogd start", s.serve},
		{"An image of the file-based catalog is built and pushed", func(ctx context.Context) (string, error) { return s.buildFBC(ctx, fbc) }},
		{"Images of the bundles and their catalog are built and pushed", func(ctx context.Context) (string, error) { return s.buildBundles(ctx, bundles) }},
		{"The catalogs are added, and are served", s.add},
		{"Every served blob is compared with its source", s.compareAll},
		{"Clients begin to read", s.read},
		{"The tag moves, and is polled", s.poll},
		{"The first replica restarts", func(ctx context.Context) (string, error) { return s.restart(ctx, 0) }},
		{"The second replica restarts", func(ctx context.Context) (string, error) { return s.restart(ctx, 1) }},
		{"A catalog is disabled", s.disable},
		{"It is enabled again", s.enable},
		{"A replica is killed and starts without its registry", s.kill},
		{"A catalog is deleted, and nothing of it is left", s.remove},
		{"Every served blob is compared once more", s.compareAll},
		{"The clients stop", s.tally},
	}
}

func (s *scenario) start(ctx context.Context) (string, error) {
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: s.dir})
	if err != nil {
		return "", err
	}

	s.Cluster = c
	if _, err := c.Kubectl(ctx, "apply", "-f", filepath.Join("config", "crd")); err != nil {
		return "", err
	}

	_, err = c.Kubectl(ctx, "create", "namespace", namespace)
	return "images go to " + c.Registry, err
}

func (s *scenario) serve(ctx context.Context) (string, error) {
	service, err := newService()
	if err != nil {
		return "", err
	}

	s.service = service
	for i := range 2 {
		r := &replica{scenario: s, dir: filepath.Join(s.dir, fmt.Sprintf("replica-%d", i))}
		if err := r.start(ctx); err != nil {
			return "", err
		}
		s.replicas = append(s.replicas, r)
	}

	s.service.replicas = s.replicas
	for _, r := range s.replicas {
		if err := r.server.AwaitReady(ctx); err != nil {
			return "", err
		}
	}

	var authority []byte
	err = eventually(ctx, time.Minute, func(ctx context.Context) error {
		out, err := s.Kubectl(ctx, "get", "configmap", "-n", namespace, "catalogd-service-ca", "-o", `jsonpath={.data.ca\.crt}`)
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
	return "one leads, both serve; " + s.service.address() + " stands for their Service", err
}

func (s *scenario) buildFBC(ctx context.Context, dir string) (string, error) {
	blobs, err := blobsBelow(dir)
	if err != nil {
		return "", err
	}

	s.fbc = &catalog{name: "from-files", ref: s.Registry + "/scenario/files:latest", versions: [][]string{blobs}}
	if _, err := s.Mainstay(ctx, "catalog", "build", dir, "--push", s.fbc.ref); err != nil {
		return "", err
	}

	return fmt.Sprintf("%d blobs", len(blobs)), nil
}

func (s *scenario) buildBundles(ctx context.Context, dir string) (string, error) {
	s.bundles = &catalog{name: "from-bundles", ref: s.Registry + "/scenario/bundles:latest"}
	if _, err := s.Mainstay(ctx, "catalog", "build", dir, "--push", s.bundles.ref); err != nil {
		return "", err
	}

	out, err := s.Mainstay(ctx, "catalog", "build", dir, "--push", s.bundles.ref, "--dry-run", "-o", "json")
	if err != nil {
		return "", err
	}

	blobs, err := blobsOf(strings.NewReader(out))
	s.bundles.versions = [][]string{blobs}
	return fmt.Sprintf("%d blobs", len(blobs)), err
}

func (s *scenario) add(ctx context.Context) (string, error) {
	for _, c := range []*catalog{s.fbc, s.bundles} {
		began := time.Now()
		if _, err := s.Mainstay(ctx, "catalog", "add", c.name, "--image", c.ref, "--poll-interval", "1m", "--wait"); err != nil {
			return "", err
		}

		c.serving = time.Since(began)
		out, err := s.Kubectl(ctx, "get", "clustercatalog", c.name, "-o", "jsonpath={.status.urls.base}")
		if err != nil {
			return "", err
		}

		c.base = out
		// The condition is the leader's: the other replica has the content soon after.
		for _, r := range s.replicas {
			if err := eventually(ctx, time.Minute, func(ctx context.Context) error { return s.readers.compareAt(ctx, c, r.address) }); err != nil {
				return "", err
			}
		}
	}

	return fmt.Sprintf("after %.2f s and %.2f s", s.fbc.serving.Seconds(), s.bundles.serving.Seconds()), nil
}

func (s *scenario) compareAll(ctx context.Context) (string, error) {
	count := 0
	for _, c := range []*catalog{s.fbc, s.bundles} {
		if c.deleted {
			continue
		}
		for _, r := range s.replicas {
			if err := s.readers.compareAt(ctx, c, r.address); err != nil {
				return "", err
			}
			count += len(c.current())
		}
	}

	return fmt.Sprintf("%d blobs of both replicas are equal", count), nil
}

func (s *scenario) read(ctx context.Context) (string, error) {
	n := s.readers.begin(ctx, s.fbc, s.bundles)
	return fmt.Sprintf("%d clients read everything, compressed or not, and single packages", n), nil
}

// poll moves the tag of the catalog of files to a catalog with a package more.
func (s *scenario) poll(ctx context.Context) (string, error) {
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

	out, err := s.Run(ctx, "opm", "render", s.fbc.ref, more)
	if err != nil {
		return "", err
	}

	all := filepath.Join(s.dir, "all")
	if err := errors.Join(os.MkdirAll(all, 0o755), os.WriteFile(filepath.Join(all, "catalog.json"), []byte(out), 0o644)); err != nil {
		return "", err
	}

	added, err := blobsOf(strings.NewReader(text))
	if err != nil {
		return "", err
	}

	s.fbc.addVersion(append(added, s.fbc.current()...))
	if _, err := s.Mainstay(ctx, "catalog", "build", all, "--push", s.fbc.ref); err != nil {
		return "", err
	}

	began := time.Now()
	for _, r := range s.replicas {
		if err := eventually(ctx, pollTime, func(ctx context.Context) error { return s.readers.compareAt(ctx, s.fbc, r.address) }); err != nil {
			return "", err
		}
	}

	took := time.Since(began)
	s.fbc.onlyCurrent()
	return fmt.Sprintf("both replicas serve the new content %.0f s after the push", took.Seconds()), nil
}

func (s *scenario) restart(ctx context.Context, i int) (string, error) {
	before := s.readers.done.Load()
	s.service.leaveOut(s.replicas[i])
	defer s.service.leaveOut(nil)
	if err := s.replicas[i].server.Stop(); err != nil {
		return "", err
	}
	if err := s.replicas[i].start(ctx); err != nil {
		return "", err
	}

	began := time.Now()
	if err := s.replicas[i].server.AwaitReady(ctx); err != nil {
		return "", err
	}

	for _, c := range []*catalog{s.fbc, s.bundles} {
		if err := s.readers.compareAt(ctx, c, s.replicas[i].address); err != nil {
			return "", fmt.Errorf("it says that it is ready and does not serve what it served: %w", err)
		}
	}

	return fmt.Sprintf("ready after %.2f s; %d requests meanwhile, none failed", time.Since(began).Seconds(), s.readers.done.Load()-before), nil
}

// disable takes a catalog away from its clients, who have been told.
func (s *scenario) disable(ctx context.Context) (string, error) {
	s.readers.pause(s.bundles)
	if err := s.setMode(ctx, "Unavailable"); err != nil {
		return "", err
	}

	for _, r := range s.replicas {
		if err := eventually(ctx, time.Minute, func(ctx context.Context) error { return s.readers.isGone(ctx, s.bundles, r.address) }); err != nil {
			return "", err
		}
	}

	out, err := s.Kubectl(ctx, "get", "clustercatalog", s.bundles.name, "-o", `jsonpath={range .status.conditions[*]}{.type}={.status}/{.reason} {end}`)
	return "404 of both replicas; " + strings.TrimSpace(out), err
}

func (s *scenario) enable(ctx context.Context) (string, error) {
	if err := s.setMode(ctx, "Available"); err != nil {
		return "", err
	}

	for _, r := range s.replicas {
		if err := eventually(ctx, time.Minute, func(ctx context.Context) error { return s.readers.compareAt(ctx, s.bundles, r.address) }); err != nil {
			return "", err
		}
	}

	s.readers.resume(s.bundles)
	return "served by both replicas, and read", nil
}

func (s *scenario) setMode(ctx context.Context, mode string) error {
	_, err := s.Kubectl(ctx, "patch", "clustercatalog", s.bundles.name, "--type=merge", "-p", `{"spec":{"availabilityMode":"`+mode+`"}}`)
	return err
}

// kill ends a replica wherever it is. What its clients were reading breaks off, so they
// have been moved to the other one.
func (s *scenario) kill(ctx context.Context) (string, error) {
	r := s.replicas[0]
	s.service.leaveOut(r)
	defer s.service.leaveOut(nil)
	s.readers.reconnect()
	err := eventually(ctx, time.Minute, func(context.Context) error {
		if n := s.service.connections(r); n > 0 {
			return fmt.Errorf("%d clients are still connected", n)
		}
		return nil
	})
	if err != nil {
		return "", err
	}

	r.server.Kill()
	began := time.Now()
	if err := r.start(ctx, "--registries-conf", s.blockingRegistries()); err != nil {
		return "", err
	}
	if err := r.server.AwaitReady(ctx); err != nil {
		return "", err
	}

	for _, c := range []*catalog{s.fbc, s.bundles} {
		if err := s.readers.compareAt(ctx, c, r.address); err != nil {
			return "", err
		}
	}

	return fmt.Sprintf("serves what it served after %.2f s, though the registry is blocked for it", time.Since(began).Seconds()), nil
}

// blockingRegistries writes a configuration that refuses the registry.
func (s *scenario) blockingRegistries() string {
	name := filepath.Join(s.dir, "blocked.conf")
	text := fmt.Sprintf("[[registry]]\nlocation = %q\nblocked = true\n", s.Registry)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return err.Error() // the server will say that there is no such file
	}
	return name
}

func (s *scenario) remove(ctx context.Context) (string, error) {
	s.readers.pause(s.bundles)
	s.bundles.deleted = true
	if _, err := s.Mainstay(ctx, "catalog", "delete", s.bundles.name, "--wait"); err != nil {
		return "", err
	}

	for _, r := range s.replicas {
		err := eventually(ctx, time.Minute, func(ctx context.Context) error {
			if err := s.readers.isGone(ctx, s.bundles, r.address); err != nil {
				return err
			}
			return r.hasNothingOf(s.bundles.name)
		})
		if err != nil {
			return "", err
		}
	}

	return "404 of both replicas, and no file on either's disk", nil
}

func (s *scenario) tally(context.Context) (string, error) {
	s.readers.stop()
	return fmt.Sprintf("%d requests, %.1f GB read, 0 failed", s.readers.done.Load(), float64(s.readers.bytes.Load())/1e9), s.readers.failure()
}
