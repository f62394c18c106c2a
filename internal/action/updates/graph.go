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
)

const (
	// answerTimeout bounds one question to an update service.
	answerTimeout = 2 * time.Minute
	// defaultStallTimeout bounds the time in which nothing of an answer arrives.
	defaultStallTimeout = 15 * time.Second
	// maxTold bounds how much of an answer an error repeats, in bytes.
	maxTold = 300
)

// Graph reads an update graph.
type Graph struct {
	// Source is the URL of an update service, or a file with a graph as JSON.
	Source string
	// Channel and Architecture are asked for; those that are empty are not named.
	Channel, Architecture string
	// From leaves what a cluster of this version can come to, over as many updates as it
	// takes. Empty: everything.
	From string
	// Program is the version of this program, which update services are told.
	Program string
	// StallTimeout ends a request when nothing of its answer arrives for so long. Default 15
	// seconds.
	StallTimeout time.Duration
}

// Run reads the graph.
func (g Graph) Run(ctx context.Context) (*cincinnati.Graph, error) {
	data, err := g.read(ctx)
	if err != nil {
		return nil, err
	}

	graph, err := cincinnati.Parse(data)
	if err != nil {
		return nil, &report.Error{Object: g.name(), Err: err}
	}
	if g.From == "" {
		return graph, nil
	}

	part, err := graph.Below(g.From)
	if err != nil {
		return nil, &report.Error{Object: g.name(), Err: err, Advice: "name a version that is in the channel"}
	}

	return part, nil
}

func (g Graph) isURL() bool {
	return strings.HasPrefix(g.Source, "https://") || strings.HasPrefix(g.Source, "http://")
}

// name is the source, without a password and without what was asked.
func (g Graph) name() string {
	if !g.isURL() {
		return g.Source
	}

	address, err := url.Parse(g.Source)
	if err != nil {
		return "the update service"
	}
	return (&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String()
}

func (g Graph) read(ctx context.Context) ([]byte, error) {
	if g.isURL() {
		return g.fetch(ctx)
	}
	if g.Channel != "" || g.Architecture != "" {
		return nil, errors.New("a file has the graph of one channel and architecture: they are named only for a URL")
	}

	f, err := os.Open(g.Source)
	if err != nil {
		return nil, err
	}

	defer func() { _ = f.Close() }() // It was only read.
	return readAtMost(f)
}

// readAtMost reads one byte more than a graph may have, so that parsing tells.
func readAtMost(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, cincinnati.MaxBytes+1))
}

func (g Graph) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	ctx, stall := watchStall(ctx, cmp.Or(g.StallTimeout, defaultStallTimeout))
	defer stall.stop()
	address, err := url.Parse(g.Source)
	if err != nil {
		return nil, &report.Error{Object: g.name(), Err: errors.New("the address is no URL")}
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
		return nil, &report.Error{Object: g.name(), Err: bare(err)}
	}

	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mainstay/"+g.Program)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &report.Error{Object: g.name(), Err: stall.explain(ctx, reachable(err))}
	}

	defer func() { _ = resp.Body.Close() }() // It was only read.
	data, err := readAtMost(stall.reader(resp.Body))
	if err != nil {
		return nil, &report.Error{Object: g.name(), Err: stall.explain(ctx, bare(err))}
	}

	if resp.StatusCode != http.StatusOK {
		told := strings.Join(strings.Fields(strings.ToValidUTF8(string(data[:min(len(data), maxTold)]), "")), " ")
		failed := &report.Error{Object: g.name(), Err: fmt.Errorf("unexpected HTTP status: %s: %s", resp.Status, told)}
		if resp.StatusCode == http.StatusBadRequest && !query.Has("channel") {
			failed.Advice = "name a channel with --channel"
		}
		return nil, failed
	}

	return data, nil
}

// bare takes the address out of an error: it may hold a password.
func bare(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// reachable takes what differs from try to try out of an error, too.
func reachable(err error) error {
	if call := (*os.SyscallError)(nil); errors.As(err, &call) && call.Syscall == "connect" {
		return fmt.Errorf("cannot connect: %w", call.Err)
	}
	return bare(err)
}
