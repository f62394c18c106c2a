package catalogclient

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// SetPause replaces the sleep between tries.
func SetPause(c *Client, pause func(context.Context, time.Duration) error) { c.sleep = pause }

// SetNow replaces the clock.
func SetNow(c *Client, now func() time.Time) { c.now = now }

// Pause returns the sleep between tries.
func Pause(c *Client) func(context.Context, time.Duration) error { return c.sleep }

// ProxyOf returns the function that selects the proxy.
func ProxyOf(c *Client) func(*http.Request) (*url.URL, error) {
	return c.http.Transport.(*transport).proxyFor
}
