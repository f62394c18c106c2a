package updateservice

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/cincinnati/graphdata"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// Options configure a service.
type Options struct {
	// Releases is the repository of the release images, as registry/path. Required.
	Releases string
	// Images are the options of the registry client.
	Images image.Options
	// DataFolder is a graph-data folder. If empty, DataImage is used, if any.
	DataFolder string
	// DataImage is an image with a graph-data folder at DataImagePath. It may be empty.
	DataImage string
	// DataImagePath is the path of the folder in DataImage. If empty, DataPath is used.
	DataImagePath string
	// Verifier verifies releases, and DataVerifier verifies DataImage. If nil, signatures are not
	// verified.
	Verifier, DataVerifier Verifier
	// CacheDir is a directory for the states of images. It may be deleted at any time. If empty,
	// images are read again after a restart.
	CacheDir string
	// Interval is the interval between scans. Zero means five minutes.
	Interval time.Duration

	// Address is the listen address for graphs, such as ":8081". StatusAddress is that of probes
	// and metrics, such as ":9081". An empty address disables the server.
	Address, StatusAddress string
	// Prefix is the prefix of the paths of graphs. If empty, it is "/api/upgrades_info".
	Prefix string
	// Certificate returns the serving certificate for each connection. If nil, TLS is disabled.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Log receives errors and changes.
	Log logr.Logger
}

// Service serves update graphs.
type Service struct {
	options Options
	scraper *scraper
	data    graphDataSource
	metrics *metrics
	current atomic.Pointer[snapshot] // nil before the first successful scan

	// The input of the current graph. As long as both are unchanged, the graph is not built
	// again.
	releases   []graphdata.Release
	loadedData *graphdata.Data
}

// New returns a service.
func New(o Options) (*Service, error) {
	if o.Releases == "" {
		return nil, errors.New("the repository of the releases is missing")
	}
	if name := o.Releases[strings.LastIndex(o.Releases, "/")+1:]; strings.ContainsAny(name, ":@") {
		return nil, fmt.Errorf("the repository of the releases is %q, with a tag or a digest: leave it out", o.Releases)
	}
	if o.DataFolder != "" && o.DataImage != "" {
		return nil, errors.New("graph-data is taken from a folder or from an image, not from both")
	}
	if o.Interval <= 0 {
		o.Interval = 5 * time.Minute
	}
	if o.Prefix == "" {
		o.Prefix = "/api/upgrades_info"
	}
	if o.DataImagePath == "" {
		o.DataImagePath = DataPath
	}

	s := &Service{options: o, scraper: newScraper(o), data: emptySource{}, metrics: newMetrics()}
	switch {
	case o.DataFolder != "":
		s.data = &folderSource{dir: o.DataFolder}
	case o.DataImage != "":
		s.data = &imageSource{images: image.NewClient(o.Images), ref: o.DataImage, path: o.DataImagePath, verifier: o.DataVerifier}
	}

	return s, nil
}

// Scan reads the releases and the graph-data, and serves the result from then on. If it fails,
// the last graph is still served.
func (s *Service) Scan(ctx context.Context) error {
	began := time.Now()
	err := s.scanSources(ctx)
	s.metrics.scanSeconds.Set(time.Since(began).Seconds())
	if err != nil {
		s.metrics.scans.WithLabelValues("failure").Inc()
		s.options.Log.Error(err, "Failed to refresh the update graph", "served", s.current.Load() != nil)
		return err
	}

	s.metrics.scans.WithLabelValues("success").Inc()
	s.metrics.lastSuccess.SetToCurrentTime()
	return nil
}

func (s *Service) scanSources(ctx context.Context) error {
	loaded, dataErr := s.data.loadGraphData(ctx)
	s.metrics.setSourceFailing(sourceData, dataErr)
	releases, refused, err := s.scraper.scanRepository(ctx)
	s.metrics.setSourceFailing(sourceReleases, err)
	if err := errors.Join(dataErr, err); err != nil {
		return err
	}

	s.metrics.refused.Set(float64(refused))
	if s.current.Load() != nil && loaded == s.loadedData && slices.EqualFunc(releases, s.releases, isSameRelease) {
		return nil
	}

	graph, warnings := graphdata.Build(releases, loaded)
	for _, warning := range warnings {
		s.options.Log.Info("A release or update is invalid", "warning", warning)
	}

	next, err := newSnapshot(graph, loaded)
	if err != nil {
		return err
	}

	s.metrics.releases.Set(float64(graph.Releases()))
	s.metrics.edges.Set(float64(graph.Edges()))
	s.metrics.warnings.Set(float64(len(warnings)))
	s.releases = releases
	s.loadedData = loaded
	s.current.Store(next)
	s.options.Log.Info("Serving a new update graph", "releases", graph.Releases(), "updates", graph.Edges())

	return nil
}

// isSameRelease reports whether two releases are the same image, which determines all other
// fields.
func isSameRelease(a, b graphdata.Release) bool {
	return a.Payload == b.Payload && a.Architecture == b.Architecture
}

// Ready returns an error before the first successful scan.
func (s *Service) Ready() error {
	if s.current.Load() == nil {
		return errors.New("there is no update graph yet")
	}
	return nil
}

// scanPeriodically scans until the context ends. A failed scan is retried sooner as long as
// there is no graph.
func (s *Service) scanPeriodically(ctx context.Context) {
	for retry := minScanRetryInterval; ; retry *= 2 {
		pause := s.options.Interval
		if err := s.Scan(ctx); err != nil && s.current.Load() == nil {
			pause = min(retry, pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		retry = min(retry, s.options.Interval)
	}
}

// minScanRetryInterval is the retry interval after the first failed scan.
const minScanRetryInterval = 5 * time.Second
