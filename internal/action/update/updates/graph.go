package updates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

const (
	// requestTimeout limits one request to an update service.
	requestTimeout = 2 * time.Minute
	// defaultStallTimeout limits the time in which no data arrives.
	defaultStallTimeout = 15 * time.Second
	// maxErrorBodyBytes limits how much of a response body is included in an error.
	maxErrorBodyBytes = 300
)

// Graph reads an update graph.
type Graph struct {
	// Source is the URL of an update service, or the path of a file with a graph as JSON.
	Source string
	// Channel and Architecture are sent to the update service unless they are empty.
	Channel, Architecture string
	// From limits the graph to the versions that a cluster of this version can reach in any
	// number of updates. Empty means the whole graph.
	From string
	// Program is the version of this program for the User-Agent header.
	Program string
	// StallTimeout cancels a request if no data arrives for this time. The default is 15
	// seconds.
	StallTimeout time.Duration
}

// Run returns the graph.
func (g Graph) Run(ctx context.Context) (*cincinnati.Graph, error) {
	data, err := g.readSource(ctx)
	if err != nil {
		return nil, err
	}

	graph, err := cincinnati.Parse(data)
	if err != nil {
		return nil, &report.Error{Object: g.redactedSource(), Err: err}
	}
	if g.From == "" {
		return graph, nil
	}

	part, err := graph.ReachableFrom(g.From)
	if err != nil {
		return nil, &report.Error{Object: g.redactedSource(), Err: err, Advice: "name a version that is in the channel"}
	}

	return part, nil
}

// IsURL reports whether a source is an HTTP(S) URL.
func IsURL(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

// RedactSource returns a source without credentials and query parameters.
func RedactSource(source string) string {
	if !IsURL(source) {
		return source
	}

	address, err := url.Parse(source)
	if err != nil {
		return "the update service"
	}
	return (&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String()
}

// redactedSource returns the source without credentials and query parameters.
func (g Graph) redactedSource() string { return RedactSource(g.Source) }

// readSource returns the content of the source.
func (g Graph) readSource(ctx context.Context) ([]byte, error) {
	if IsURL(g.Source) {
		return g.fetchGraph(ctx)
	}
	if g.Channel != "" || g.Architecture != "" {
		return nil, errors.New("channel and architecture can be set only for a URL: a file contains a single graph")
	}

	f, err := os.Open(g.Source)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readLimitedGraph(f)
}

// readLimitedGraph reads at most one byte more than a graph may have, so that the parser
// refuses a larger one.
func readLimitedGraph(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, cincinnati.MaxBytes+1))
}

// fetchGraph requests the graph from the update service.
func (g Graph) fetchGraph(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ctx, stall := watchStall(ctx, cmp.Or(g.StallTimeout, defaultStallTimeout))
	defer stall.stopWatching()
	address, err := url.Parse(g.Source)
	if err != nil {
		return nil, &report.Error{Object: g.redactedSource(), Err: errors.New("the address is not a URL")}
	}

	query := address.Query()
	for name, value := range map[string]string{"channel": g.Channel, "arch": g.Architecture} {
		if value != "" {
			query.Set(name, value)
		}
	}

	address.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, &report.Error{Object: g.redactedSource(), Err: stripURL(err)}
	}

	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mainstay/"+g.Program)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &report.Error{Object: g.redactedSource(), Err: stall.explainError(ctx, simplifyConnectError(err))}
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	data, err := readLimitedGraph(stall.wrapReader(resp.Body))
	if err != nil {
		return nil, &report.Error{Object: g.redactedSource(), Err: stall.explainError(ctx, stripURL(err))}
	}

	if resp.StatusCode != http.StatusOK {
		body := excerpt.Line(string(data), maxErrorBodyBytes)
		failed := &report.Error{Object: g.redactedSource(), Err: fmt.Errorf("unexpected HTTP status: %s: %s", resp.Status, body)}
		if resp.StatusCode == http.StatusBadRequest && !query.Has("channel") {
			failed.Advice = "name a channel with --channel"
		}
		return nil, failed
	}

	return data, nil
}

// stripURL removes the URL from an error, because it may contain credentials.
func stripURL(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// simplifyConnectError removes from an error the URL and the local address, which differs
// between attempts.
func simplifyConnectError(err error) error {
	if call := (*os.SyscallError)(nil); errors.As(err, &call) && call.Syscall == "connect" {
		return fmt.Errorf("cannot connect: %w", call.Err)
	}
	return stripURL(err)
}
