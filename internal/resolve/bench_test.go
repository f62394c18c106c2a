package resolve_test

import (
	"fmt"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// largeCatalog has 500 bundles, each in all of 20 channels: 10,000 entries that
// replace, skip and have a skipRange.
func largeCatalog() resolve.Catalog {
	var bs []fbc.Bundle
	var entries []fbc.ChannelEntry
	last := ""
	for i := range 500 {
		name := fmt.Sprintf("e.v1.%d.%d", i/10, i%10)
		bs = append(bs, bundle(name))
		e := fbc.ChannelEntry{Name: name, Replaces: last, SkipRange: fmt.Sprintf(">=1.%d.0 <1.%d.%d", max(0, i/10-1), i/10, i%10)}
		if i > 1 {
			e.Skips = []string{entries[i-2].Name}
		}

		entries = append(entries, e)
		last = name
	}

	parts := []contentOption{withBundles(bs...)}
	for i := range 20 {
		parts = append(parts, withChannel(fmt.Sprintf("channel-%02d", i), entries...))
	}

	return catalog("large", 0, parts...)
}

func BenchmarkResolve(b *testing.B) {
	catalogs := []resolve.Catalog{largeCatalog()}
	for name, req := range map[string]resolve.Request{
		"install":            {Version: "1.x"},
		"install in channel": {Version: "1.x", Channels: []string{"channel-07"}},
		"update":             {Version: "1.x", Installed: installed("e.v1.20.3")},
		"update in channel":  {Version: "1.x", Channels: []string{"channel-07"}, Installed: installed("e.v1.20.3")},
		"not found":          {Version: "1.49.9", Installed: installed("e.v1.0.0")},
	} {
		req.Package = pkg
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				result, err := resolve.Resolve(req, catalogs)
				if (err != nil) != (name == "not found") || (err == nil && result.Bundle.Name == "") {
					b.Fatal(err)
				}
			}
		})
	}
}
