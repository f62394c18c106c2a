package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/go-containerregistry/pkg/registry"
	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// measureUpdates measures the resources of a cluster for a large update graph, and how many
// clusters an update service with one processor can serve.
func measureUpdates(ctx context.Context, _ string, runs int) error {
	if err := measureGraph(runs); err != nil {
		return err
	}
	return measureUpdateService(ctx)
}

// measureGraph parses a graph of 5,000 releases and 60,000 updates, and looks up the updates of
// one release.
func measureGraph(runs int) error {
	data, err := json.Marshal(newLargeGraph(5000, 12))
	if err != nil {
		return err
	}

	var seconds, memory samples
	for range runs {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		g, err := cincinnati.Parse(data)
		if err != nil {
			return err
		}
		if _, err := g.Updates(semver.MustParse("4.10.10")); err != nil {
			return err
		}

		seconds = append(seconds, secondsSince(began)*1000)
		runtime.ReadMemStats(&after)
		memory = append(memory, float64(after.TotalAlloc-before.TotalAlloc)/1e6)
	}

	seconds.printSummary(fmt.Sprintf("update graph, 5,000 releases and 60,000 updates (%.1f MB), read", float64(len(data))/1e6), "ms", 1)
	memory.printSummary("  allocated, all that is thrown away counted", "MB", 1)
	return nil
}

// newLargeGraph returns a graph in which each release can be updated to the next ones.
func newLargeGraph(releases, each int) *cincinnati.Graph {
	g := &cincinnati.Graph{Version: cincinnati.Version}
	for i := range releases {
		g.Nodes = append(g.Nodes, cincinnati.Node{
			Version: formatVersion(i), Payload: fmt.Sprintf("registry.example.com/platform/release@sha256:%064x", i),
			Metadata: map[string]string{
				cincinnati.MetadataURL:      fmt.Sprintf("https://example.com/errata/%d", i),
				cincinnati.MetadataChannels: fmt.Sprintf("candidate-4.%[1]d,eus-4.%[1]d,fast-4.%[1]d,stable-4.%[1]d", i/100),
			},
		})
		for j := i + 1; j <= i+each && j < releases; j++ {
			g.Edges = append(g.Edges, cincinnati.Edge{From: i, To: j})
		}
	}

	return g
}

func formatVersion(i int) string { return fmt.Sprintf("4.%d.%d", i/100, i%100) }

// measureUpdateService measures requests for a channel of 500 releases.
func measureUpdateService(ctx context.Context) (err error) {
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer images.Close()
	repository := strings.TrimPrefix(images.URL, "http://") + "/platform/release"
	const releases = 500
	if err := pushReleases(ctx, repository, releases); err != nil {
		return err
	}

	graphs, err := findFreeAddress(ctx)
	if err != nil {
		return err
	}

	status, err := findFreeAddress(ctx)
	if err != nil {
		return err
	}

	cmd := exec.CommandContext(ctx, "bin/mainstay", "run", "update-service", "--releases", repository, "--address", graphs, "--status-address", status)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var output strings.Builder
	cmd.Stderr = &output
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		if stopErr := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil || stopErr != nil {
			err = fmt.Errorf("%w\n%s", errors.Join(err, stopErr), output.String())
		}
	}()
	if err := waitForReady(ctx, "http://"+status+"/readyz"); err != nil {
		return err
	}

	samples{secondsSince(began)}.printSummary(fmt.Sprintf("update-service, %d releases, start until ready", releases), "s", 2)
	for _, encoding := range []string{"gzip", "identity"} {
		l, err := measureLoad(ctx, cmd.Process.Pid, nil, encoding, []string{
			"http://" + graphs + "/api/upgrades_info/graph?channel=stable&arch=amd64&version=4.1.0&id=7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11",
		})
		if err != nil {
			return err
		}
		l.printResult("update-service on one processor, " + encoding)
	}

	peak, anonymous, err := readProcessMemory(cmd.Process.Pid)
	if err != nil {
		return err
	}

	samples{peak}.printSummary("  peak memory", "MB", 0)
	samples{anonymous}.printSummary("  anonymous memory", "MB", 0)
	return nil
}

// pushReleases pushes releases of one channel. Each can be updated from the ones before it.
func pushReleases(ctx context.Context, repository string, count int) error {
	client := image.NewClient(image.Options{})
	var work errgroup.Group
	work.SetLimit(8)
	for i := range count {
		work.Go(func() error {
			metadata := release.Metadata{Kind: release.KindMetadata, Version: formatVersion(i), Metadata: map[string]string{
				release.MetadataChannels: "stable", release.MetadataURL: fmt.Sprintf("https://example.com/errata/%d", i),
			}}
			for j := max(0, i-12); j < i; j++ {
				metadata.Previous = append(metadata.Previous, formatVersion(j))
			}

			text, err := metadata.Encode()
			if err != nil {
				return err
			}

			references, err := release.ImageReferences{Name: formatVersion(i)}.Encode()
			if err != nil {
				return err
			}

			built, err := image.Build(image.Spec{OS: "linux", Architecture: "amd64", Layers: []image.Layer{{Files: []image.File{
				{Path: release.FileMetadata, Content: text}, {Path: release.FileImages, Content: references},
			}}}})
			if err != nil {
				return err
			}

			_, err = client.Push(ctx, repository+":"+formatVersion(i), nil, built)
			return err
		})
	}

	return work.Wait()
}
