// Package web has the built pages of the console, and of the static site for a catalog, which shares their components.
//
// The sources are in src. `make web` builds them to dist, which is committed, so that the program can be built without
// Node.js. The gate builds them again and fails if the result differs.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Assets returns the built pages of the console, with index.html at the root.
func Assets() fs.FS {
	assets, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // dist is embedded above
	}
	return assets
}

// Site returns the built pages of a static site for a catalog, with index.html at the root.
func Site() fs.FS {
	site, err := fs.Sub(dist, "dist/site")
	if err != nil {
		panic(err) // the name is valid
	}
	return site
}
