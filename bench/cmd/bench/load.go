package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// loadConnections is the number of concurrent clients.
const loadConnections = 8

// loadSeconds is the duration for each kind of request, in seconds.
const loadSeconds = 5

// loadResult is the measurement of one kind of request.
type loadResult struct {
	// rate is the number of responses per second, for clients with one connection each.
	rate float64
	// p50 and p99 are percentiles of the latency in milliseconds, for a single client.
	p50, p99 float64
	// bytes is the average size of a response body as it was sent. cpu is the processor time of
	// the server for one response, in milliseconds.
	bytes, cpu float64
}

func (l loadResult) printResult(what string) {
	fmt.Printf("%-62s %8.0f requests/s  p50 %7.2f ms  p99 %7.2f ms  %9.0f bytes and %6.3f ms of the server's processor time each, %5.2f GB/s\n",
		what, l.rate, l.p50, l.p99, l.bytes, l.cpu, l.rate*l.bytes/1e9)
}

// newLoadClient returns a client with one connection, over HTTP/1.1 and TLS.
func newLoadClient(roots *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableCompression: true,
		MaxConnsPerHost: 1, ReadBufferSize: 64 << 10,
	}}
}

// measureLoad requests URLs in turn, first with one connection and then with several. The clients
// are in this process and share the machine with the server.
func measureLoad(ctx context.Context, pid int, roots *x509.CertPool, encoding string, urls []string) (loadResult, error) {
	var l loadResult
	before, err := readProcessorSeconds(pid)
	if err != nil {
		return l, err
	}

	alone, _, err := requestInTurn(ctx, roots, encoding, urls, 0)
	if err != nil {
		return l, err
	}

	slices.Sort(alone)
	l.p50, l.p99 = alone[len(alone)/2], alone[len(alone)*99/100]

	type result struct {
		taken []float64
		bytes int64
		err   error
	}
	results := make([]result, loadConnections)
	var work sync.WaitGroup
	began := time.Now()
	for i := range results {
		work.Go(func() {
			r := &results[i]
			r.taken, r.bytes, r.err = requestInTurn(ctx, roots, encoding, urls, i*len(urls)/loadConnections)
		})
	}

	work.Wait()
	seconds := secondsSince(began)
	count, bytes := 0, int64(0)
	for _, r := range results {
		err = errors.Join(err, r.err)
		count += len(r.taken)
		bytes += r.bytes
	}

	l.rate, l.bytes = float64(count)/seconds, float64(bytes)/float64(max(count, 1))
	after, cpuErr := readProcessorSeconds(pid)
	l.cpu = (after - before) * 1000 / float64(max(count+len(alone), 1))

	return l, errors.Join(err, cpuErr)
}

// requestInTurn requests URLs in turn, starting with the one at index from. It returns the
// latencies in milliseconds and the number of bytes.
func requestInTurn(ctx context.Context, roots *x509.CertPool, encoding string, urls []string, from int) ([]float64, int64, error) {
	c := newLoadClient(roots)
	defer c.CloseIdleConnections()
	buffer := make([]byte, 256<<10)
	var taken []float64
	var bytes int64
	for end := time.Now().Add(loadSeconds * time.Second); time.Now().Before(end) || len(taken) == 0; {
		began := time.Now()
		n, err := readBody(ctx, c, urls[(from+len(taken))%len(urls)], encoding, buffer)
		if err != nil {
			return nil, 0, err
		}

		bytes += n
		taken = append(taken, secondsSince(began)*1000)
	}

	return taken, bytes, nil
}

// readBody requests a URL and returns the size of its body.
func readBody(ctx context.Context, c *http.Client, url, encoding string, buffer []byte) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}

	req.Header.Set("Accept-Encoding", encoding)
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	// The structs hide the methods with which io.CopyBuffer would avoid the buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, buffer)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}

	return n, err
}
