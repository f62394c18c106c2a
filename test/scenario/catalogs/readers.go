package main

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// requestTimeout is the timeout of one request. These catalogs have a few megabytes.
const requestTimeout = 30 * time.Second

// catalogReaders are clients that read continuously until the first failed request.
type catalogReaders struct {
	tls        *tls.Config
	requests   atomic.Int64
	bytes      atomic.Int64
	reconnects atomic.Int64 // number of calls of reconnectClients
	cancel     context.CancelFunc
	running    sync.WaitGroup

	// locks has a lock for each catalog. Each reader holds it during a request. pauseReading
	// holds it for writing.
	locks      map[*catalog]*sync.RWMutex
	paused     map[*catalog]bool
	firstError atomic.Pointer[error]
}

func newReaders(authority []byte) (*catalogReaders, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("the published authority is not a certificate")
	}
	return &catalogReaders{tls: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, locks: map[*catalog]*sync.RWMutex{}, paused: map[*catalog]bool{}}, nil
}

// startClients starts clients of each kind for each catalog and returns their number.
func (r *catalogReaders) startClients(ctx context.Context, catalogs ...*catalog) int {
	ctx, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	n := 0
	for _, c := range catalogs {
		r.locks[c] = &sync.RWMutex{}
		for _, get := range []func(context.Context, *http.Client, *catalog) error{r.readWholeCatalog("identity"), r.readWholeCatalog("gzip"), r.readPackages} {
			n++
			r.running.Go(func() { r.readUntilDone(ctx, c, get) })
		}
	}

	return n
}

func (r *catalogReaders) readUntilDone(ctx context.Context, c *catalog, get func(context.Context, *http.Client, *catalog) error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: r.tls, DisableCompression: true}}
	defer client.CloseIdleConnections()
	again := r.reconnects.Load()
	for ctx.Err() == nil && r.firstError.Load() == nil {
		if now := r.reconnects.Load(); now != again {
			again = now
			client.CloseIdleConnections()
		}

		r.locks[c].RLock()
		err := get(ctx, client, c)
		r.locks[c].RUnlock()
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("a client of catalog %s at %s: %w", c.name, time.Now().Format(time.TimeOnly), err)
			r.firstError.CompareAndSwap(nil, &err)
		}
	}
}

// pauseReading stops reading a catalog once the current requests are done.
func (r *catalogReaders) pauseReading(c *catalog) {
	r.locks[c].Lock()
	r.paused[c] = true
}

func (r *catalogReaders) resumeReading(c *catalog) {
	r.paused[c] = false
	r.locks[c].Unlock()
}

// reconnectClients makes every client open a new connection after its current request.
func (r *catalogReaders) reconnectClients() { r.reconnects.Add(1) }

// firstFailure returns the error of the first failed request, or nil. The receiver may be nil.
func (r *catalogReaders) firstFailure() error {
	if r == nil || r.firstError.Load() == nil {
		return nil
	}
	return *r.firstError.Load()
}

// stopClients stops the clients. The receiver may be nil, and it may be called several times.
func (r *catalogReaders) stopClients() {
	if r == nil || r.cancel == nil {
		return
	}

	r.cancel()
	for c, paused := range r.paused {
		if paused {
			r.resumeReading(c) // Waiting clients have to see that the context has ended.
		}
	}

	r.running.Wait()
	r.cancel = nil
}

// stopAndReport stops the clients and returns how much they have read, or the first failure.
func (r *catalogReaders) stopAndReport() (string, error) {
	r.stopClients()
	return fmt.Sprintf("%d requests, %.1f GB read, 0 failed", r.requests.Load(), float64(r.bytes.Load())/1e9), r.firstFailure()
}

// readWholeCatalog returns a function that reads the whole catalog and checks that it is a
// version that may be served.
func (r *catalogReaders) readWholeCatalog(encoding string) func(context.Context, *http.Client, *catalog) error {
	return func(ctx context.Context, client *http.Client, c *catalog) error {
		blobs, err := r.getBlobs(ctx, client, c.baseURL+"/api/v1/all", encoding)
		if err == nil && !c.isServedVersion(blobs) {
			err = errors.New("api/v1/all answered what no version of the catalog is")
		}
		return err
	}
}

// readPackages reads the list of packages, and then the bundles of each.
func (r *catalogReaders) readPackages(ctx context.Context, client *http.Client, c *catalog) error {
	packages, err := r.getBlobs(ctx, client, c.baseURL+"/api/v1/metas?schema=olm.package", "gzip")
	if err != nil {
		return err
	}

	for _, blob := range packages {
		var pkg struct{ Name string }
		if err := json.Unmarshal([]byte(blob), &pkg); err != nil {
			return err
		}

		bundles, err := r.getBlobs(ctx, client, c.baseURL+"/api/v1/metas?schema=olm.bundle&package="+pkg.Name, "identity")
		if err != nil {
			return err
		}
		if len(bundles) == 0 {
			return fmt.Errorf("package %s has no bundles", pkg.Name)
		}
	}

	return nil
}

// getBlobs requests a URL and returns the sorted blobs of the JSON lines in the response.
func (r *catalogReaders) getBlobs(ctx context.Context, client *http.Client, url, encoding string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Accept-Encoding", encoding)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{url: url, status: resp.StatusCode}
	}

	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(resp.Body); err != nil {
			return nil, err
		}
	}

	text, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}

	r.requests.Add(1)
	r.bytes.Add(int64(len(text)))
	var blobs []string
	for line := range strings.Lines(string(text)) {
		blob, err := sortKeys([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("GET %s: a line is no JSON: %w", url, err)
		}
		blobs = append(blobs, blob)
	}

	slices.Sort(blobs)
	return blobs, nil
}

// statusError is the error for a status code other than 200.
type statusError struct {
	url    string
	status int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("GET %s: %d %s", e.url, e.status, http.StatusText(e.status))
}

// newReplicaClient returns a client that connects to one replica.
func (r *catalogReaders) newReplicaClient(address string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: r.tls, DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
}

// compareReplica compares the blobs that a replica serves with the source.
func (r *catalogReaders) compareReplica(ctx context.Context, c *catalog, address string) error {
	got, err := r.getBlobs(ctx, r.newReplicaClient(address), c.baseURL+"/api/v1/all", "gzip")
	if err != nil {
		return err
	}

	want := c.currentBlobs()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got) || i < len(want) && want[i] < got[i]:
			return fmt.Errorf("catalog %s lacks the blob %.200s", c.name, want[i])
		case i >= len(want) || got[i] < want[i]:
			return fmt.Errorf("catalog %s has the blob %.200s, which its source does not have", c.name, got[i])
		}
	}

	return nil
}

// waitUntilServed waits until each replica serves the current blobs of a catalog.
func (r *catalogReaders) waitUntilServed(ctx context.Context, replicas *replicaSet, c *catalog, limit time.Duration) error {
	return replicas.waitForEach(ctx, limit, func(ctx context.Context, server *replica) error {
		return r.compareReplica(ctx, c, server.address)
	})
}

// checkNotServed returns an error unless a replica responds with status 404 for a catalog.
func (r *catalogReaders) checkNotServed(ctx context.Context, c *catalog, address string) error {
	_, err := r.getBlobs(ctx, r.newReplicaClient(address), c.baseURL+"/api/v1/all", "identity")
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		return nil
	}
	if err == nil {
		return fmt.Errorf("catalog %s is still served", c.name)
	}

	return err
}
