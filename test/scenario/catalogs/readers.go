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

// requestTime is how long one answer may take: these catalogs have a few megabytes.
const requestTime = 30 * time.Second

// readers are clients that read all the time. The first failed request ends them.
type readers struct {
	tls     *tls.Config
	done    atomic.Int64
	bytes   atomic.Int64
	again   atomic.Int64 // counts the calls of reconnect
	end     context.CancelFunc
	running sync.WaitGroup

	// reading of a catalog is held by each reader during a request, and by pause.
	reading map[*catalog]*sync.RWMutex
	paused  map[*catalog]bool
	first   atomic.Pointer[error]
}

func newReaders(authority []byte) (*readers, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("the published authority is no certificate")
	}
	return &readers{tls: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, reading: map[*catalog]*sync.RWMutex{}, paused: map[*catalog]bool{}}, nil
}

// begin starts clients of each kind for each catalog.
func (r *readers) begin(ctx context.Context, catalogs ...*catalog) int {
	ctx, cancel := context.WithCancel(ctx)
	r.end = cancel
	n := 0
	for _, c := range catalogs {
		r.reading[c] = &sync.RWMutex{}
		for _, get := range []func(context.Context, *http.Client, *catalog) error{r.all("identity"), r.all("gzip"), r.packages} {
			n++
			r.running.Go(func() { r.loop(ctx, c, get) })
		}
	}

	return n
}

func (r *readers) loop(ctx context.Context, c *catalog, get func(context.Context, *http.Client, *catalog) error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: r.tls, DisableCompression: true}}
	defer client.CloseIdleConnections()
	again := r.again.Load()
	for ctx.Err() == nil && r.first.Load() == nil {
		if now := r.again.Load(); now != again {
			again = now
			client.CloseIdleConnections()
		}

		r.reading[c].RLock()
		err := get(ctx, client, c)
		r.reading[c].RUnlock()
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("a client of catalog %s at %s: %w", c.name, time.Now().Format(time.TimeOnly), err)
			r.first.CompareAndSwap(nil, &err)
		}
	}
}

// pause ends the reading of a catalog, once the requests that are under way are answered.
func (r *readers) pause(c *catalog) {
	r.reading[c].Lock()
	r.paused[c] = true
}

func (r *readers) resume(c *catalog) {
	r.paused[c] = false
	r.reading[c].Unlock()
}

// reconnect has every client connect anew after the request that it is at.
func (r *readers) reconnect() { r.again.Add(1) }

// failure is the first failed request, if any. It works on nil.
func (r *readers) failure() error {
	if r == nil || r.first.Load() == nil {
		return nil
	}
	return *r.first.Load()
}

// stop ends the clients. It works on nil, and twice.
func (r *readers) stop() {
	if r == nil || r.end == nil {
		return
	}

	r.end()
	for c, paused := range r.paused {
		if paused {
			r.resume(c) // so that those who wait see the end
		}
	}

	r.running.Wait()
	r.end = nil
}

// all reads the whole catalog and looks whether it is a version that may be served.
func (r *readers) all(encoding string) func(context.Context, *http.Client, *catalog) error {
	return func(ctx context.Context, client *http.Client, c *catalog) error {
		blobs, err := r.get(ctx, client, c.base+"/api/v1/all", encoding)
		if err == nil && !c.isOne(blobs) {
			err = errors.New("api/v1/all answered what no version of the catalog is")
		}
		return err
	}
}

// packages reads the list of packages, and then the bundles of each.
func (r *readers) packages(ctx context.Context, client *http.Client, c *catalog) error {
	packages, err := r.get(ctx, client, c.base+"/api/v1/metas?schema=olm.package", "gzip")
	if err != nil {
		return err
	}

	for _, blob := range packages {
		var pkg struct{ Name string }
		if err := json.Unmarshal([]byte(blob), &pkg); err != nil {
			return err
		}

		bundles, err := r.get(ctx, client, c.base+"/api/v1/metas?schema=olm.bundle&package="+pkg.Name, "identity")
		if err != nil {
			return err
		}
		if len(bundles) == 0 {
			return fmt.Errorf("package %s has no bundles", pkg.Name)
		}
	}

	return nil
}

// get reads an answer of JSON lines, and gives its blobs in order.
func (r *readers) get(ctx context.Context, client *http.Client, url, encoding string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
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

	r.done.Add(1)
	r.bytes.Add(int64(len(text)))
	var blobs []string
	for line := range strings.Lines(string(text)) {
		blob, err := inOrder([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("GET %s: a line is no JSON: %w", url, err)
		}
		blobs = append(blobs, blob)
	}

	slices.Sort(blobs)
	return blobs, nil
}

// statusError is an answer other than 200.
type statusError struct {
	url    string
	status int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("GET %s: %d %s", e.url, e.status, http.StatusText(e.status))
}

// at makes a client whose connections go to one replica.
func (r *readers) at(address string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: r.tls, DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
}

// compareAt compares what a replica serves with the source, blob by blob.
func (r *readers) compareAt(ctx context.Context, c *catalog, address string) error {
	got, err := r.get(ctx, r.at(address), c.base+"/api/v1/all", "gzip")
	if err != nil {
		return err
	}

	want := c.current()
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

// isGone reports whether a replica answers 404 for a catalog.
func (r *readers) isGone(ctx context.Context, c *catalog, address string) error {
	_, err := r.get(ctx, r.at(address), c.base+"/api/v1/all", "identity")
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		return nil
	}
	if err == nil {
		return fmt.Errorf("catalog %s is still served", c.name)
	}

	return err
}
