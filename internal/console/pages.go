package console

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// contentSecurityPolicy allows what the pages need: their own scripts, styles, images and requests. Styles may be inline,
// because the components of the pages set them on elements; scripts may not.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// addSecurityHeaders adds the headers that every response has.
func addSecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-store")
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// newPages returns a handler of the built pages. Every path that is not a file is a page of the application.
func newPages(assets fs.FS) (http.Handler, error) {
	files, err := readPageFiles(assets)
	if err != nil {
		return nil, fmt.Errorf("reading the pages of the console: %w", err)
	}

	index := files["index.html"]
	if index == nil {
		return nil, errors.New("reading the pages of the console: index.html is missing")
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}

		name := strings.TrimPrefix(r.URL.Path, "/")
		file := files[name]
		if file == nil {
			name, file = "index.html", index
		}
		// The names of the files in assets contain the hash of their content.
		if strings.HasPrefix(name, "assets/") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		file.serveFile(w, r, name)
	}), nil
}

// pageFile is a file of the pages in memory.
type pageFile struct {
	content []byte
	// compressed is the content as gzip. It is nil for files that are compressed already.
	compressed []byte
}

// readPageFiles reads and compresses the files, so that requests cost no time.
func readPageFiles(assets fs.FS) (map[string]*pageFile, error) {
	files := map[string]*pageFile{}
	err := fs.WalkDir(assets, ".", func(name string, entry fs.DirEntry, err error) error {
		if name == "site" && entry.IsDir() {
			return fs.SkipDir // the pages of the static site
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(assets, name)
		if err != nil {
			return err
		}
		files[name] = &pageFile{content: content}
		if path.Ext(name) == ".woff2" {
			return nil
		}
		files[name].compressed, err = compressContent(content)
		return err
	})
	return files, err
}

func compressContent(content []byte) ([]byte, error) {
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return compressed.Bytes(), err
}

// serveFile serves the file, compressed if the client accepts that.
func (f *pageFile) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	content := f.content
	if f.compressed != nil {
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			content = f.compressed
		}
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}
