package serve

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// Encodings that a body can be sent in, the best first; identity is as it is.
const (
	encodingZstd     = string(catalogstore.Zstd)
	encodingGzip     = string(catalogstore.Gzip)
	encodingIdentity = "identity"
)

// compressions are the encodings that make a body smaller.
var compressions = []string{encodingZstd, encodingGzip}

// accepted are the weights that a client gives to encodings, as in RFC 9110: zero is
// "not at all".
type accepted struct{ zstd, gzip, identity float64 }

// accepts reads Accept-Encoding. Without one a client takes what it gets, which is the
// body as it is: not every program that can send a request can decompress the answer.
func accepts(header http.Header) accepted {
	weights := map[string]float64{}
	for _, line := range header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(line, ",") {
			coding, params, _ := strings.Cut(part, ";")
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding == "x-gzip" {
				coding = encodingGzip
			}
			if weight, ok := weightOf(params); ok && coding != "" {
				weights[coding] = weight
			}
		}
	}

	of := func(coding string, otherwise float64) float64 {
		if weight, named := weights[coding]; named {
			return weight
		}
		if weight, others := weights["*"]; others && (coding != encodingIdentity || weight == 0) {
			return weight
		}
		return otherwise
	}

	// What is not named is the last resort, but for identity;q=0 and *;q=0.
	return accepted{zstd: of(encodingZstd, 0), gzip: of(encodingGzip, 0), identity: of(encodingIdentity, 0.0001)}
}

// weightOf reads the parameters of a coding.
func weightOf(params string) (float64, bool) {
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

// best is the encoding that a client likes best: of equal weights the smallest body. It
// is empty when none is acceptable.
func (a accepted) best() string {
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

// entityTag makes the tag of a body that is named by a sum. The plain one is always the
// same bytes; a compressed one only means the same.
func entityTag(sum, encoding string) string {
	if encoding == encodingIdentity {
		return `"` + sum + `"`
	}
	return `W/"` + sum + `-` + encoding + `"`
}

// matches reports whether a client has a body already, in whatever encoding, and gives its
// tag. As in RFC 9110, If-None-Match is weighed by weak comparison, and If-Modified-Since
// only without it.
func matches(header http.Header, sum string, modified time.Time) (string, bool) {
	plain := entityTag(sum, encodingIdentity)
	if lines := header.Values("If-None-Match"); len(lines) > 0 {
		for _, line := range lines {
			for tag := range strings.SplitSeq(line, ",") {
				tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
				if tag == "*" || tag == plain {
					return plain, true
				}
				for _, encoding := range compressions {
					if compressed := entityTag(sum, encoding); tag == strings.TrimPrefix(compressed, "W/") {
						return compressed, true
					}
				}
			}
		}
		return "", false
	}

	since, err := http.ParseTime(header.Get("If-Modified-Since"))
	return plain, err == nil && !modified.Truncate(time.Second).After(since)
}

// prefersMermaid reports whether a client names Mermaid in Accept, and no JSON before it.
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
			case typeMermaid:
				mermaid = weight
			case typeJSON, "application/*", "*/*":
				json = max(json, weight)
			}
		}
	}

	return mermaid > 0 && mermaid >= json
}
