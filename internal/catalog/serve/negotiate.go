package serve

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// Content codings of a body, in order of preference. identity means no compression.
const (
	encodingZstd     = string(catalogstore.Zstd)
	encodingGzip     = string(catalogstore.Gzip)
	encodingIdentity = "identity"
)

// compressedEncodings are the encodings except identity.
var compressedEncodings = []string{encodingZstd, encodingGzip}

// acceptedEncodings are the weights (RFC 9110) of the encodings that a client accepts. Zero means that an
// encoding is not acceptable.
type acceptedEncodings struct{ zstd, gzip, identity float64 }

// parseAcceptEncoding parses the header Accept-Encoding. Without the header, only identity is used, because
// not every client can decompress a response.
func parseAcceptEncoding(header http.Header) acceptedEncodings {
	weights := map[string]float64{}
	for _, line := range header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(line, ",") {
			coding, params, _ := strings.Cut(part, ";")
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding == "x-gzip" {
				coding = encodingGzip
			}
			if weight, ok := parseWeight(params); ok && coding != "" {
				weights[coding] = weight
			}
		}
	}

	weightOf := func(coding string, otherwise float64) float64 {
		if weight, named := weights[coding]; named {
			return weight
		}
		if weight, others := weights["*"]; others && (coding != encodingIdentity || weight == 0) {
			return weight
		}
		return otherwise
	}

	// identity has the lowest weight if it is not named, unless identity;q=0 or *;q=0 excludes it.
	return acceptedEncodings{zstd: weightOf(encodingZstd, 0), gzip: weightOf(encodingGzip, 0), identity: weightOf(encodingIdentity, 0.0001)}
}

// parseWeight parses the weight in the parameters of a coding. It reports whether the weight is valid.
func parseWeight(params string) (float64, bool) {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return weight, err == nil && weight >= 0 && weight <= 1
	}

	return 1, true
}

// preferredEncoding returns the encoding with the highest weight. For equal weights, it is the one with the
// best compression. It is empty if no encoding is acceptable.
func (a acceptedEncodings) preferredEncoding() string {
	best, weight := "", 0.0
	for _, candidate := range []struct {
		name   string
		weight float64
	}{{encodingZstd, a.zstd}, {encodingGzip, a.gzip}, {encodingIdentity, a.identity}} {
		if candidate.weight > weight {
			best, weight = candidate.name, candidate.weight
		}
	}

	return best
}

// formatEntityTag returns the entity tag of a body with a checksum. The tag of the uncompressed body is
// strong. The tags of compressed bodies are weak, because their bytes can differ.
func formatEntityTag(sum, encoding string) string {
	if encoding == encodingIdentity {
		return `"` + sum + `"`
	}
	return `W/"` + sum + `-` + encoding + `"`
}

// isNotModified reports whether a client has a body already, in any encoding, and returns the matching
// entity tag. As defined by RFC 9110, If-None-Match uses weak comparison, and If-Modified-Since is only
// evaluated without it.
func isNotModified(header http.Header, sum string, modified time.Time) (string, bool) {
	if lines := header.Values("If-None-Match"); len(lines) > 0 {
		return matchEntityTags(lines, sum)
	}

	since, err := http.ParseTime(header.Get("If-Modified-Since"))
	return formatEntityTag(sum, encodingIdentity), err == nil && !modified.Truncate(time.Second).After(since)
}

// matchEntityTags returns the entity tag of the body that is first in the lines of If-None-Match, and
// whether there is one.
func matchEntityTags(lines []string, sum string) (string, bool) {
	plain := formatEntityTag(sum, encodingIdentity)
	for _, line := range lines {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == "*" || tag == plain {
				return plain, true
			}

			for _, encoding := range compressedEncodings {
				if compressed := formatEntityTag(sum, encoding); tag == strings.TrimPrefix(compressed, "W/") {
					return compressed, true
				}
			}
		}
	}

	return "", false
}

// prefersMermaid reports whether the header Accept contains Mermaid with at least the weight of JSON.
func prefersMermaid(header http.Header) bool {
	json, mermaid := -1.0, -1.0
	for _, line := range header.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}

			weight := 1.0
			if q, ok := params["q"]; ok {
				if weight, err = strconv.ParseFloat(q, 64); err != nil {
					continue
				}
			}

			switch kind {
			case contentTypeMermaid:
				mermaid = weight
			case contentTypeJSON, "application/*", "*/*":
				json = max(json, weight)
			}
		}
	}

	return mermaid > 0 && mermaid >= json
}
