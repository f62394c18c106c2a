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

// connections is how many clients ask a server at once.
const connections = 8

// loadSeconds is how long each kind of request is made.
const loadSeconds = 5

// load is what clients measured of one kind of request.
type load struct {
	// rate is how many were answered in a second, by clients of one connection each.
	rate float64
	// p50 and p99 are the milliseconds that one takes, sorted, with nobody else asking.
	p50, p99 float64
	// bytes is the average size of a body as it was sent, and cpu the milliseconds of
	// processor time that the server took for one.
	bytes, cpu float64
}

func (l load) print(what string) {
	fmt.Printf("%-62s %8.0f requests/s  p50 %7.2f ms  p99 %7.2f ms  %9.0f bytes and %6.3f ms of the server's processor time each, %5.2f GB/s\n",
		what, l.rate, l.p50, l.p99, l.bytes, l.cpu, l.rate*l.bytes/1e9)
}

// client makes a client that keeps one connection, over HTTP/1.1 and TLS.
func client(roots *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableCompression: true,
		MaxConnsPerHost: 1, ReadBufferSize: 64 << 10,
	}}
}

// measureLoad asks a server for URLs in turn, first with one connection and then with
// several. The clients are in this process, so that they share the machine with the server.
func measureLoad(ctx context.Context, pid int, roots *x509.CertPool, encoding string, urls []string) (load, error) {
	var l load
	before, err := processorSeconds(pid)
	if err != nil {
		return l, err
	}

	alone, _, err := ask(ctx, roots, encoding, urls, 0)
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
	results := make([]result, connections)
	var work sync.WaitGroup
	began := time.Now()
	for i := range results {
		work.Go(func() {
			r := &results[i]
			r.taken, r.bytes, r.err = ask(ctx, roots, encoding, urls, i*len(urls)/connections)
		})
	}

	work.Wait()
	seconds := since(began)
	count, bytes := 0, int64(0)
	for _, r := range results {
		err = errors.Join(err, r.err)
		count += len(r.taken)
		bytes += r.bytes
	}

	l.rate, l.bytes = float64(count)/seconds, float64(bytes)/float64(max(count, 1))
	after, cpuErr := processorSeconds(pid)
	l.cpu = (after - before) * 1000 / float64(max(count+len(alone), 1))

	return l, errors.Join(err, cpuErr)
}

// ask asks for URLs in turn, from one of them on, and gives the milliseconds that each
// took.
func ask(ctx context.Context, roots *x509.CertPool, encoding string, urls []string, from int) ([]float64, int64, error) {
	c := client(roots)
	defer c.CloseIdleConnections()
	buffer := make([]byte, 256<<10)
	var taken []float64
	var bytes int64
	for end := time.Now().Add(loadSeconds * time.Second); time.Now().Before(end) || len(taken) == 0; {
		began := time.Now()
		n, err := get(ctx, c, urls[(from+len(taken))%len(urls)], encoding, buffer)
		if err != nil {
			return nil, 0, err
		}

		bytes += n
		taken = append(taken, since(began)*1000)
	}

	return taken, bytes, nil
}

// get reads a body to its end.
func get(ctx context.Context, c *http.Client, url, encoding string, buffer []byte) (int64, error) {
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
	// The structs hide what would make io.CopyBuffer use another way than the buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, buffer)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}

	return n, err
}
