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
	// Releases is the repository with the release images, as registry/path. Required.
	Releases string
	// Images says how registries are reached.
	Images image.Options
	// DataFolder is a graph-data folder. Empty: none, or that of DataImage.
	DataFolder string
	// DataImage is an image with a graph-data folder at DataImagePath. Empty: none.
	DataImage string
	// DataImagePath is where DataImage has its folder. Empty: DataPath.
	DataImagePath string
	// Verifier decides which releases may be served, and DataVerifier whether DataImage may
	// be used. Nil: all of them.
	Verifier, DataVerifier Verifier
	// CacheDir is a folder for what is known of images, which may be deleted at any time.
	// Empty: images are read again after a restart.
	CacheDir string
	// Interval is how often releases and graph-data are looked at. Zero: five minutes.
	Interval time.Duration

	// Address is where graphs are served, such as ":8081", and StatusAddress where probes
	// and metrics are, such as ":9081". Empty: neither.
	Address, StatusAddress string
	// Prefix of the paths of graphs. Empty: "/api/upgrades_info".
	Prefix string
	// Certificate returns the serving certificate for each connection. Nil: no TLS.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Log is told of what fails.
	Log logr.Logger
}

// Service serves update graphs.
type Service struct {
	options Options
	scraper *scraper
	data    data
	metrics *metrics
	current atomic.Pointer[snapshot] // nil until a first graph was made

	// What the current graph was made of: as long as both are the same, so is the graph.
	releases []graphdata.Release
	of       *graphdata.Data
}

// New makes a service.
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

	s := &Service{options: o, scraper: newScraper(o), data: noData{}, metrics: newMetrics()}
	switch {
	case o.DataFolder != "":
		s.data = &dataFolder{dir: o.DataFolder}
	case o.DataImage != "":
		s.data = &dataImage{images: image.NewClient(o.Images), ref: o.DataImage, path: o.DataImagePath, verifier: o.DataVerifier}
	}

	return s, nil
}

// Scan looks at the releases and the graph-data, and serves what it finds from then on.
// When something of it fails, the graph that was made before goes on being served.
func (s *Service) Scan(ctx context.Context) error {
	began := time.Now()
	err := s.scan(ctx)
	s.metrics.scanSeconds.Set(time.Since(began).Seconds())
	if err != nil {
		s.metrics.scans.WithLabelValues("failure").Inc()
		s.options.Log.Error(err, "The update graph cannot be renewed", "served", s.current.Load() != nil)
		return err
	}

	s.metrics.scans.WithLabelValues("success").Inc()
	s.metrics.lastSuccess.SetToCurrentTime()
	return nil
}

func (s *Service) scan(ctx context.Context) error {
	loaded, dataErr := s.data.load(ctx)
	s.metrics.fails(sourceData, dataErr)
	releases, refused, err := s.scraper.scan(ctx)
	s.metrics.fails(sourceReleases, err)
	if err := errors.Join(dataErr, err); err != nil {
		return err
	}

	s.metrics.refused.Set(float64(refused))
	if s.current.Load() != nil && loaded == s.of && slices.EqualFunc(releases, s.releases, sameRelease) {
		return nil
	}

	graph, warnings := graphdata.Build(releases, loaded)
	for _, warning := range warnings {
		s.options.Log.Info("A release has a fault", "warning", warning)
	}

	made, err := newSnapshot(graph, loaded)
	if err != nil {
		return err
	}

	s.metrics.releases.Set(float64(graph.Releases()))
	s.metrics.edges.Set(float64(graph.Edges()))
	s.metrics.warnings.Set(float64(len(warnings)))
	s.releases, s.of = releases, loaded
	s.current.Store(made)
	s.options.Log.Info("Serving a new update graph", "releases", graph.Releases(), "updates", graph.Edges())

	return nil
}

// sameRelease reports whether two releases are the same image: all that they say is in it.
func sameRelease(a, b graphdata.Release) bool {
	return a.Payload == b.Payload && a.Architecture == b.Architecture
}

// Ready fails until a first graph was made.
func (s *Service) Ready() error {
	if s.current.Load() == nil {
		return errors.New("no update graph was made yet")
	}
	return nil
}

// scanForever scans until the context ends. As long as nothing is served, a scan that
// failed is tried again sooner.
func (s *Service) scanForever(ctx context.Context) {
	for retry := firstRetry; ; retry *= 2 {
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

// firstRetry is the pause after the first scan that failed.
const firstRetry = 5 * time.Second
