package catalogclient

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// SetPause replaces the waiting between tries.
func SetPause(c *Client, pause func(context.Context, time.Duration) error) { c.pause = pause }

// SetNow replaces the clock.
func SetNow(c *Client, now func() time.Time) { c.now = now }

// Pause returns the waiting between tries.
func Pause(c *Client) func(context.Context, time.Duration) error { return c.pause }

// ProxyOf returns what chooses a proxy.
func ProxyOf(c *Client) func(*http.Request) (*url.URL, error) {
	return c.http.Transport.(*transport).proxyOf
}
