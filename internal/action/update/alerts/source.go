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

// requestTimeout limits a request to Prometheus.
const requestTimeout = 30 * time.Second

// Source is the source of alerts.
type Source struct {
	// Location is the URL of a Prometheus without /api/v1, or a file with a response of
	// /api/v1/alerts. "-" means In. Empty means that no alerts are read.
	Location string
	// In is the standard input. It is required only for "-".
	In io.Reader
}

// Firing returns the firing alerts. It returns none if Location is empty.
func (s *Source) Firing(ctx context.Context) ([]Alert, error) {
	if s.Location == "" {
		return nil, nil
	}

	data, err := s.readLocation(ctx)
	if err != nil {
		return nil, err
	}

	firing, err := Parse(data)
	if err != nil {
		return nil, &report.Error{Object: s.redactedLocation(), Err: err, Advice: "name a Prometheus, or a file with what it answers at /api/v1/alerts"}
	}

	return firing, nil
}

// readLocation returns the content of the location.
func (s *Source) readLocation(ctx context.Context) ([]byte, error) {
	if s.Location == "-" {
		return readAlertsLimited(s.In)
	}
	if strings.HasPrefix(s.Location, "https://") || strings.HasPrefix(s.Location, "http://") {
		return s.fetchAlerts(ctx)
	}

	f, err := os.Open(s.Location)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readAlertsLimited(f)
}

// readAlertsLimited reads at most one byte more than MaxBytes, so that the parser refuses a
// larger response.
func readAlertsLimited(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxBytes+1)) }

// redactedLocation returns the location without credentials and query parameters.
func (s *Source) redactedLocation() string {
	address, err := url.Parse(s.Location)
	if err != nil {
		return "the source of alerts"
	}
	if address.Host == "" {
		return s.Location
	}
	return (&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String()
}

// fetchAlerts requests the alerts from Prometheus.
func (s *Source) fetchAlerts(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	address, err := url.Parse(s.Location)
	if err != nil {
		return nil, &report.Error{Object: s.redactedLocation(), Err: errors.New("the address is not a URL")}
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("api", "v1", "alerts").String(), nil)
	if err != nil {
		return nil, &report.Error{Object: s.redactedLocation(), Err: stripURL(err)}
	}

	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &report.Error{Object: s.redactedLocation(), Err: stripURL(err), Advice: "check that Prometheus can be reached from here, for example by 'kubectl port-forward'"}
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, &report.Error{Object: s.redactedLocation(), Err: fmt.Errorf("unexpected HTTP status: %s", resp.Status)}
	}

	data, err := readAlertsLimited(resp.Body)
	if err != nil {
		return nil, &report.Error{Object: s.redactedLocation(), Err: stripURL(err)}
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
