package alerts

import (
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
)

// answerTimeout bounds one question to Prometheus.
const answerTimeout = 30 * time.Second

// Source is where alerts are read.
type Source struct {
	// Location is the URL of a Prometheus, before /api/v1, or a file that has what it answers at
	// /api/v1/alerts; "-" is In. Empty: no alerts are read.
	Location string
	// In is the standard input. Required for "-" alone.
	In io.Reader
}

// Firing returns the alerts that fire; none when there is no location.
func (s *Source) Firing(ctx context.Context) ([]Alert, error) {
	if s.Location == "" {
		return nil, nil
	}

	data, err := s.read(ctx)
	if err != nil {
		return nil, err
	}

	firing, err := Parse(data)
	if err != nil {
		return nil, &report.Error{Object: s.name(), Err: err, Advice: "name a Prometheus, or a file with what it answers at /api/v1/alerts"}
	}

	return firing, nil
}

func (s *Source) read(ctx context.Context) ([]byte, error) {
	if s.Location == "-" {
		return atMost(s.In)
	}
	if strings.HasPrefix(s.Location, "https://") || strings.HasPrefix(s.Location, "http://") {
		return s.fetch(ctx)
	}

	f, err := os.Open(s.Location)
	if err != nil {
		return nil, err
	}

	defer func() { _ = f.Close() }() // It was only read.
	return atMost(f)
}

// atMost reads one byte more than there may be, so that parsing tells.
func atMost(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxBytes+1)) }

// name is the location, without a password and without a query.
func (s *Source) name() string {
	address, err := url.Parse(s.Location)
	if err != nil {
		return "the source of alerts"
	}
	if address.Host == "" {
		return s.Location
	}
	return (&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String()
}

func (s *Source) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	address, err := url.Parse(s.Location)
	if err != nil {
		return nil, &report.Error{Object: s.name(), Err: errors.New("the address is not a URL")}
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("api", "v1", "alerts").String(), nil)
	if err != nil {
		return nil, &report.Error{Object: s.name(), Err: bare(err)}
	}

	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &report.Error{Object: s.name(), Err: bare(err), Advice: "check that Prometheus can be reached from here, for example by 'kubectl port-forward'"}
	}

	defer func() { _ = resp.Body.Close() }() // It was only read.
	if resp.StatusCode != http.StatusOK {
		return nil, &report.Error{Object: s.name(), Err: fmt.Errorf("unexpected HTTP status: %s", resp.Status)}
	}

	data, err := atMost(resp.Body)
	if err != nil {
		return nil, &report.Error{Object: s.name(), Err: bare(err)}
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
