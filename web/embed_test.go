package web_test

import (
	"bytes"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/mainstay-dev/mainstay/web"
)

// maxFirstLoad limits the compressed scripts that a browser loads before it shows a page, in bytes.
const maxFirstLoad = 350_000

var (
	entryPattern = regexp.MustCompile(`<script type="module" crossorigin src="/assets/([^"]+\.js)"`)
	// importPattern matches what a script needs at once, and pagePattern what it loads later: each page is a file of its own.
	importPattern = regexp.MustCompile("(?:from|import) ?[\"`]\\./([^\"`]+\\.js)[\"`]")
	pagePattern   = regexp.MustCompile("import\\([\"`]\\./([^\"`]+\\.js)[\"`]\\)")
)

// The first page that a person opens loads its own scripts and those of the frame around all pages.
func TestFirstLoad(t *testing.T) {
	index := readAsset(t, "index.html")
	match := entryPattern.FindSubmatch(index)
	if match == nil {
		t.Fatalf("index.html has no script:\n%s", index)
	}

	entry := string(match[1])
	pages := pagePattern.FindAllSubmatch(readAsset(t, "assets/"+entry), -1)
	if len(pages) < 10 {
		t.Fatalf("the entry %s loads %d pages, want a file for each page", entry, len(pages))
	}

	for _, page := range pages {
		scripts := map[string]int{}
		addScripts(t, scripts, entry)
		addScripts(t, scripts, string(page[1]))
		size := 0
		for script := range maps.Values(scripts) {
			size += script
		}
		t.Logf("%s: %d scripts, %d bytes", page[1], len(scripts), size)
		if size > maxFirstLoad {
			t.Errorf("%s loads %d bytes of scripts, want at most %d: %v", page[1], size, maxFirstLoad, slices.Sorted(maps.Keys(scripts)))
		}
	}
}

// addScripts adds the compressed sizes of a script and of the scripts that it needs at once.
func addScripts(t *testing.T, sizes map[string]int, name string) {
	t.Helper()
	if _, ok := sizes[name]; ok {
		return
	}

	script := readAsset(t, "assets/"+name)
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(script); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	sizes[name] = compressed.Len()
	for _, needed := range importPattern.FindAllSubmatch(script, -1) {
		addScripts(t, sizes, string(needed[1]))
	}
}

func readAsset(t *testing.T, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(web.Assets(), name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
