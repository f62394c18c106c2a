package catalogclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxTries bounds the tries of a request that fails for a transient reason, such as a
	// rollout of the server. For longer outages the caller retries.
	maxTries = 3
	// minRetryInterval is the time before the second try. The next one is four times as long.
	minRetryInterval = 100 * time.Millisecond
	// maxRetryInterval limits the intervals that servers request.
	maxRetryInterval = 5 * time.Second
)

// callWithRetries calls do until it succeeds or returns an error that is not transient.
func (c *Client) callWithRetries(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		pause, again := retryIntervalAfter(err)
		if err == nil || !again || try == maxTries {
			return err
		}

		if pause == 0 {
			pause = minRetryInterval << (2 * (try - 1))
			// Jitter spreads the retries of clients that failed at the same time.
			pause += rand.N(pause / 2) //nolint:gosec // The jitter is not a secret.
		}

		if c.sleep(ctx, min(pause, maxRetryInterval)) != nil {
			return err
		}
	}
}

// retryIntervalAfter returns the retry interval that the server requests after an error, 0 for none, and whether a retry can help.
func retryIntervalAfter(err error) (time.Duration, bool) {
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) {
		return 0, false
	}

	switch unavailable.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return unavailable.retryAfter, true
	case 0:
		return 0, isTransientError(unavailable.Err)
	}

	return 0, false
}

// isTransientError reports whether an error of the connection may be transient.
func isTransientError(err error) bool {
	var (
		untrusted *tls.CertificateVerificationError
		unknown   x509.UnknownAuthorityError
		network   net.Error
		operation *net.OpError
		cut       *connectionError
	)

	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &untrusted), errors.As(err, &unknown):
		return false
	case errors.As(err, &network) && network.Timeout():
		// The request has used all of its timeout.
		return false
	}

	return errors.As(err, &operation) || errors.As(err, &cut) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// parseRetryAfter parses the header Retry-After, which is a number of seconds or a time.
func parseRetryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 3600))*time.Second, maxRetryInterval)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// sleepWithContext sleeps until d has passed or the context ends. It returns the error of the
// context.
func sleepWithContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
