package updateservice

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unpackArchive returns the files of a .tar.gz.
func unpackArchive(t *testing.T, data []byte) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}

	files := map[string]string{}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}

		text, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if err != nil {
			t.Fatal(err)
		}

		files[header.Name] = string(text)
	}
}

// A service with the archive of another one serves the same graphs.
func TestGraphData(t *testing.T) {
	i := newTestRegistry(t)
	i.pushRelease("4.1.0")
	i.pushRelease("4.1.1", "4.1.0")
	i.pushRelease("4.1.2", "4.1.0", "4.1.1")
	files := map[string]string{"channels/stable.yaml": stable, "blocked-edges/a.yaml": issue, "raw/metadata.json": "{}"}
	dir := newDataFolder(t, files)
	writeData(t, dir, map[string]string{"README.md": "nobody reads it", "channels/OWNERS": "nor this"})
	s := newScannedService(t, Options{Releases: i.repository, DataFolder: dir})
	served := getPath(s, "/graph-data")
	if served.Code != http.StatusOK || served.Header().Get("Content-Type") != typeGzip {
		t.Fatalf("got status %d with headers %v, want 200 of type %s", served.Code, served.Header(), typeGzip)
	}

	unpacked := unpackArchive(t, served.Body.Bytes())
	version := unpacked["version"]
	delete(unpacked, "version")
	if diff := cmp.Diff(files, unpacked); diff != "" || version == "" {
		t.Errorf("version %q, files (-want +got):\n%s", version, diff)
	}

	unpacked["version"] = version
	const query = "channel=stable-4.1"
	elsewhere := t.TempDir()
	writeData(t, elsewhere, unpacked)
	again := newScannedService(t, Options{Releases: i.repository, DataFolder: elsewhere})
	if got, want := describeGraph(t, again, query), describeGraph(t, s, query); got != want || want == "" {
		t.Errorf("got the graph %q of the service with the archive, want %q", got, want)
	}

	tag := served.Header().Get("ETag")
	if got := getPath(again, "/graph-data").Header().Get("ETag"); got != tag || tag == "" {
		t.Errorf("got tag %s of the same folder, want %s", got, tag)
	}
	if w := getPath(s, "/graph-data", "If-None-Match", tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("with the tag: got status %d, want 304", w.Code)
	}

	w := httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/api/upgrades_info/graph-data", nil)); w.Code != http.StatusOK || w.Body.Len() > 0 {
		t.Errorf("HEAD: got status %d with %d bytes, want 200 without a body", w.Code, w.Body.Len())
	}

	for what, test := range map[string]struct {
		s    *Service
		want int
	}{
		"no folder": {newScannedService(t, Options{Releases: i.repository}), http.StatusNotFound},
		"no graph":  {newService(t, Options{Releases: i.repository, DataFolder: dir}), http.StatusInternalServerError},
	} {
		if w := getPath(test.s, "/graph-data"); w.Code != test.want {
			t.Errorf("%s: got %d %s, want status %d", what, w.Code, w.Body, test.want)
		}
	}
}
