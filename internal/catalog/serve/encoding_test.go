package serve_test

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
)

func TestNegotiation(t *testing.T) {
	for accept, want := range map[string]string{
		"":                                  "identity",
		"gzip":                              "gzip",
		"x-gzip":                            "gzip",
		"GZIP":                              "gzip",
		"zstd":                              "zstd",
		"gzip, zstd":                        "zstd",
		"gzip, deflate, br":                 "gzip",
		"gzip;q=1.0, zstd;q=0.9":            "gzip",
		"gzip;q=0.5":                        "gzip",
		"gzip;q=0.5, identity":              "identity",
		"gzip;q=0.5, identity;q=0.5":        "gzip",
		"gzip;q=0":                          "identity",
		"gzip ; q = 0, *":                   "zstd",
		"*":                                 "zstd",
		"*;q=0.1":                           "zstd",
		"*;q=0":                             "",
		"*;q=0, gzip":                       "gzip",
		"*;q=0, identity":                   "identity",
		"identity;q=0":                      "",
		"identity;q=0, gzip;q=0.1":          "gzip",
		"br":                                "identity",
		"br;q=1, *;q=0.5":                   "zstd",
		"gzip;q=2":                          "identity",
		"gzip;q=x":                          "identity",
		"gzip;level=9;q=0.5, zstd;level=20": "zstd",
		", ,":                               "identity",
	} {
		if got := serve.Best(http.Header{"Accept-Encoding": {accept}}); got != want {
			t.Errorf("%q: the encoding is %q, want %q", accept, got, want)
		}
	}

	if got := serve.Best(http.Header{"Accept-Encoding": {"gzip;q=0.1", "zstd;q=0.2"}}); got != "zstd" {
		t.Errorf("in two lines: the encoding is %q, want zstd", got)
	}
}

// plainText returns the decompressed body of a response.
func plainText(t *testing.T, resp *http.Response) string {
	t.Helper()
	var r io.Reader = resp.Body
	var err error
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "":
	case "gzip":
		r, err = gzip.NewReader(resp.Body)
	case "zstd":
		r, err = zstd.NewReader(resp.Body)
	default:
		t.Fatalf("the encoding is %q", encoding)
	}

	if err != nil {
		t.Fatal(err)
	}

	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

// huge is a catalog of 2 MB. It exceeds the memory buffer, and its compression ratio is high enough for stored
// compressed forms.
var huge = func() string {
	var b strings.Builder
	for i := range 2100 {
		fmt.Fprintf(&b, `{"name":"n","package":"p","schema":"x","text":"%s%d"}`+"\n", strings.Repeat("again and ", 100), i*i)
	}
	return b.String()
}()

func TestEncodings(t *testing.T) {
	s := newFixture(t)
	s.put(t, "huge", huge)
	for name, test := range map[string]struct {
		path string
		// identity is set if a client that accepts any encoding gets the uncompressed body.
		identity bool
		// unknown is set if the length of a compressed body is not known when it is sent.
		unknown bool
	}{
		"all":                  {"/catalogs/large/api/v1/all", false, false},
		"all, small":           {"/catalogs/small/api/v1/all", true, false},
		"all, huge":            {"/catalogs/huge/api/v1/all", false, true},
		"metas":                {"/catalogs/large/api/v1/metas?package=p1", false, false},
		"metas, small":         {"/catalogs/large/api/v1/metas?name=n1", true, false},
		"metas, huge":          {"/catalogs/huge/api/v1/metas?package=p", false, true},
		"metas, nothing":       {"/catalogs/large/api/v1/metas?name=x", true, false},
		"fields":               {"/catalogs/large/api/v1/metas?package=p1&fields=x", false, false},
		"fields, small":        {"/catalogs/large/api/v1/metas?name=n1&fields=x", true, false},
		"fields, small of all": {"/catalogs/huge/api/v1/metas?package=p&fields=x", false, false},
		"fields, huge":         {"/catalogs/huge/api/v1/metas?package=p&fields=text", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			plain := s.sendRequest(t, "GET", test.path)
			want := responseBody(t, plain)
			if plain.Header.Get("Content-Encoding") != "" || strings.HasPrefix(plain.Header.Get("ETag"), "W/") {
				t.Errorf("got headers %v of the plain body, want no encoding and a strong tag", plain.Header)
			}

			for _, encoding := range []string{"gzip", "zstd"} {
				// The second response can be a cached one.
				for range 2 {
					resp := s.sendRequest(t, "GET", test.path, "Accept-Encoding: "+encoding)
					if got := resp.Header.Get("Content-Encoding"); (got == "") != test.identity || (got != "" && got != encoding) {
						t.Errorf("%s: got encoding %q, want identity: %v", encoding, got, test.identity)
					}
					if resp.ContentLength < 0 && !test.unknown {
						t.Errorf("%s: got no length, want one", encoding)
					}
					if got := plainText(t, resp); got != want {
						t.Errorf("%s: the body has %d bytes that differ from the %d plain ones", encoding, len(got), len(want))
					}
					if resp.Header.Get("Vary") != "Accept-Encoding" {
						t.Errorf("%s: got Vary %q, want Accept-Encoding", encoding, resp.Header.Get("Vary"))
					}

					tag := resp.Header.Get("ETag")
					if same := tag == plain.Header.Get("ETag"); same != test.identity || (!same && !strings.HasPrefix(tag, "W/")) {
						t.Errorf("%s: got tag %s for the plain body and %s, want the same: %v, or else a weak one", encoding, plain.Header.Get("ETag"), tag, test.identity)
					}

					head := s.sendRequest(t, "HEAD", test.path, "Accept-Encoding: "+encoding)
					if head.Header.Get("ETag") != tag || head.Header.Get("Content-Encoding") != resp.Header.Get("Content-Encoding") || responseBody(t, head) != "" {
						t.Errorf("%s: got headers %[3]v of HEAD, want those of GET, %[2]v, and no body", encoding, resp.Header, head.Header)
					}

					for _, accept := range []string{encoding, "identity"} {
						again := s.sendRequest(t, "GET", test.path, "Accept-Encoding: "+accept, "If-None-Match: "+tag)
						if again.StatusCode != http.StatusNotModified || again.Header.Get("ETag") != tag {
							t.Errorf("%s: a conditional request: got status %d with the headers %v, want 304 with the tag %s", encoding, again.StatusCode, again.Header, tag)
						}
					}
				}
				// A client that accepts only this encoding gets it for bodies of any size.
				resp := s.sendRequest(t, "GET", test.path, "Accept-Encoding: identity;q=0, "+encoding)
				if got := plainText(t, resp); resp.Header.Get("Content-Encoding") != encoding || got != want {
					t.Errorf("%s, without identity: got encoding %q, want %[1]q and the same body", encoding, resp.Header.Get("Content-Encoding"))
				}
			}

			refused := s.sendRequest(t, "GET", test.path, "Accept-Encoding: identity;q=0")
			if refused.StatusCode != http.StatusNotAcceptable || !strings.Contains(responseBody(t, refused), "accept zstd, gzip or identity") {
				t.Errorf("without an acceptable encoding: got status %d, want 406 with the supported encodings", refused.StatusCode)
			}
		})
	}
}

// TestWholeCatalogsAreKeptCompressed waits until a compressed form is stored.
func TestWholeCatalogsAreKeptCompressed(t *testing.T) {
	s := newFixture(t)
	s.put(t, "huge", huge)
	for _, encoding := range []string{"gzip", "zstd"} {
		for {
			resp := s.sendRequest(t, "GET", "/catalogs/huge/api/v1/all", "Accept-Encoding: "+encoding)
			if got := plainText(t, resp); got != huge {
				t.Fatalf("%s: got a different body, want the catalog", encoding)
			}
			// The length is only known for a stored form.
			if resp.ContentLength > 0 {
				break
			}
		}
		if _, err := os.Stat(s.file(t, "huge") + "." + encoding); err != nil {
			t.Error(err)
		}
	}

	// Another catalog with the same content uses the form immediately.
	s.put(t, "other", huge)
	if resp := s.sendRequest(t, "HEAD", "/catalogs/other/api/v1/all", "Accept-Encoding: gzip"); resp.ContentLength <= 0 {
		t.Error("got no length for another catalog with the same content, want the shared compressed form")
	}
}

func TestRanges(t *testing.T) {
	s := newFixture(t)
	whole := s.sendRequest(t, "GET", "/catalogs/large/api/v1/all")
	tag, modified := whole.Header.Get("ETag"), whole.Header.Get("Last-Modified")
	if whole.Header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("got Accept-Ranges %q, want bytes", whole.Header.Get("Accept-Ranges"))
	}

	for name, test := range map[string]struct {
		path, want string
		headers    []string
		code       int
	}{
		"first":             {"all", s.large[:10], []string{"Range: bytes=0-9"}, 206},
		"middle":            {"all", s.large[100:5000], []string{"Range: bytes=100-4999"}, 206},
		"open":              {"all", s.large[1000:], []string{"Range: bytes=1000-"}, 206},
		"last":              {"all", s.large[len(s.large)-7:], []string{"Range: bytes=-7"}, 206},
		"longer than it is": {"all", s.large[1000:], []string{"Range: bytes=1000-99999999"}, 206},
		"beyond the end":    {"all", "invalid range: failed to overlap\n", []string{"Range: bytes=99999999-"}, 416},
		"of metas":          {"metas?name=n1000", `{"name":"n1000","package":"p0","schema":"olm.bundle"}`[5:20], []string{"Range: bytes=5-19"}, 206},
		"of fields":         {"metas?name=n1000&fields=x", `{"name":"n1000","package":"p0","schema":"olm.bundle"}`[5:20], []string{"Range: bytes=5-19"}, 206},
		"though compressed": {"all", s.large[:10], []string{"Range: bytes=0-9", "Accept-Encoding: gzip, zstd"}, 206},
		"of this":           {"all", s.large[:10], []string{"Range: bytes=0-9", "If-Range: " + tag}, 206},
		"of this time":      {"all", s.large[:10], []string{"Range: bytes=0-9", "If-Range: " + modified}, 206},
		"of another":        {"all", s.large, []string{"Range: bytes=0-9", `If-Range: "x"`}, 200},
		"of a weak tag":     {"all", s.large, []string{"Range: bytes=0-9", "If-Range: W/" + tag}, 200},
		"other unit":        {"all", "invalid range\n", []string{"Range: lines=0-9"}, 416},
		"if it matches":     {"all", s.large, []string{"If-Match: " + tag}, 200},
		"if it does not":    {"all", "", []string{`If-Match: "x"`}, 412},
	} {
		t.Run(name, func(t *testing.T) {
			resp := s.sendRequest(t, "GET", "/catalogs/large/api/v1/"+test.path, test.headers...)
			if got := responseBody(t, resp); resp.StatusCode != test.code || got != test.want {
				t.Errorf("status is %d, want %d (-want +got):\n%s", resp.StatusCode, test.code, cmp.Diff(test.want, got))
			}
			if resp.Header.Get("Content-Encoding") != "" {
				t.Errorf("got headers %v of a compressed response, want an uncompressed one", resp.Header)
			}
		})
	}

	t.Run("several", func(t *testing.T) {
		resp := s.sendRequest(t, "GET", "/catalogs/large/api/v1/all", "Range: bytes=0-4,100-109,-3")
		_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		if err != nil || resp.StatusCode != http.StatusPartialContent {
			t.Fatalf("got status %d with %v (error %v), want 206", resp.StatusCode, resp.Header, err)
		}

		var got []string
		parts := multipart.NewReader(resp.Body, params["boundary"])
		for part, err := parts.NextPart(); err == nil; part, err = parts.NextPart() {
			text, err := io.ReadAll(part)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(text))
		}

		if diff := cmp.Diff([]string{s.large[:5], s.large[100:110], s.large[len(s.large)-3:]}, got); diff != "" {
			t.Errorf("parts (-want +got):\n%s", diff)
		}
	})

	// An interrupted download is resumed, across several blobs and buffers.
	s.put(t, "huge", huge)
	var got strings.Builder
	for got.Len() < len(huge) {
		resp := s.sendRequest(t, "GET", "/catalogs/huge/api/v1/all", "Range: bytes="+strconv.Itoa(got.Len())+"-"+strconv.Itoa(got.Len()+300_000))
		got.WriteString(responseBody(t, resp))
	}

	if got.String() != huge {
		t.Error("the downloaded parts differ from the complete body")
	}
}
