package serve

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// entityTag makes the tag of a representation: the plain and the compressed bytes
// differ, so that their tags do.
func entityTag(sum string, compressed bool) string {
	if compressed {
		return `"` + sum + `-gzip"`
	}
	return `"` + sum + `"`
}

// notModified tells whether the client has the representation already. As in RFC 9110,
// If-None-Match is weighed by weak comparison, and If-Modified-Since only without it.
func notModified(header http.Header, etag string, modified time.Time) bool {
	if tags := header.Values("If-None-Match"); len(tags) > 0 {
		for tag := range strings.SplitSeq(strings.Join(tags, ","), ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
		return false
	}
	since, err := http.ParseTime(header.Get("If-Modified-Since"))
	return err == nil && !modified.Truncate(time.Second).After(since)
}

// acceptsGzip tells whether a client asks for gzip: it names it, or "*", with a weight
// that is not zero.
func acceptsGzip(header http.Header) bool {
	accepted := false
	for part := range strings.SplitSeq(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		coding, params, _ := strings.Cut(part, ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q="); ok {
			parsed, err := strconv.ParseFloat(q, 64)
			if err != nil {
				continue
			}
			weight = parsed
		}
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return weight > 0
		case "*":
			accepted = weight > 0
		}
	}
	return accepted
}
