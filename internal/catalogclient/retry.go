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
	// tries is how often a request is made that fails for a reason that goes away by itself
	// within moments, such as a server that is replaced. Who needs an answer for longer than
	// that asks again later.
	tries = 3
	// firstPause is the pause before the second try; the next is four times that.
	firstPause = 100 * time.Millisecond
	// longestPause bounds the pauses that servers ask for.
	longestPause = 5 * time.Second
)

// retrying does something until it succeeds, or fails in a way that stays so.
func (c *Client) retrying(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		pause, again := pauseAfter(err)
		if err == nil || !again || try == tries {
			return err
		}

		if pause == 0 {
			pause = firstPause << (2 * (try - 1))
			// Those who fail together do not come again together.
			pause += rand.N(pause / 2) //nolint:gosec // Nobody gains from guessing it.
		}

		if c.pause(ctx, min(pause, longestPause)) != nil {
			return err
		}
	}
}

// pauseAfter reports whether trying again soon may help after an error, and how long the
// server wants the client to wait before, 0 when it does not say.
func pauseAfter(err error) (time.Duration, bool) {
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) {
		return 0, false
	}

	switch unavailable.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return unavailable.retryAfter, true
	case 0:
		return 0, isPassing(unavailable.Err)
	}

	return 0, false
}

// isPassing reports whether an error of the connection may be gone a moment later.
func isPassing(err error) bool {
	var (
		untrusted *tls.CertificateVerificationError
		unknown   x509.UnknownAuthorityError
		network   net.Error
		operation *net.OpError
		cut       *cutOffError
	)

	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &untrusted), errors.As(err, &unknown):
		return false
	case errors.As(err, &network) && network.Timeout():
		// It has taken all the time that there is.
		return false
	}

	return errors.As(err, &operation) || errors.As(err, &cut) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// retryAfter reads the header, which is a number of seconds or a time.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 3600))*time.Second, longestPause)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
