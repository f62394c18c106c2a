package serve

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const mediaTypeJSON = "application/json"

// writeTimeout is how long a client may take to accept a part of a response.
const writeTimeout = 30 * time.Second

// writeStatusError answers with an error as a Status.
func writeStatusError(w http.ResponseWriter, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}

	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	text, err := json.Marshal(status)
	if err != nil { // A Status can always be encoded.
		http.Error(w, status.Message, int(status.Code))
		return
	}

	w.Header().Set("Content-Type", mediaTypeJSON)
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(append(text, '\n')) // An error means that the client has disconnected.
}

func writePlainText(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // An error means that the client has disconnected.
	return nil
}

// writeJSON answers with JSON.
func writeJSON(w http.ResponseWriter, r *http.Request, text []byte) error {
	body := newResponseBody(w, r)
	body.append(text)
	body.append([]byte{'\n'})
	return body.close()
}

// responseBody is a response that is written in parts. It is compressed if the client accepts
// gzip.
type responseBody struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	// acceptsGzip is set if the client accepts gzip.
	acceptsGzip bool
	// compressor is nil until a part is compressed.
	compressor *gzip.Writer
	buffer     []byte
	err        error
}

// compressors are unused compressors. A new one takes 1.2 MB of memory, more than most responses.
var compressors = sync.Pool{New: func() any {
	compressor, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // The level is valid.
	return compressor
}}

const (
	// bodyBufferBytes is the size of one write.
	bodyBufferBytes = 64 << 10
	// minCompressBytes is the smallest response that is compressed.
	minCompressBytes = 16 << 10
)

func newResponseBody(w http.ResponseWriter, r *http.Request) *responseBody {
	w.Header().Set("Content-Type", mediaTypeJSON)
	w.Header().Add("Vary", "Accept, Accept-Encoding")
	return &responseBody{w: w, controller: http.NewResponseController(w), acceptsGzip: acceptsGzip(r)}
}

// acceptsGzip reports whether a client accepts compressed responses.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, parameter, _ := strings.Cut(part, ";")
		if coding = strings.TrimSpace(coding); coding != "gzip" && coding != "*" {
			continue
		}

		quality, found := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
		q, err := strconv.ParseFloat(quality, 64)
		return !found || (err == nil && q > 0)
	}

	return false
}

func (b *responseBody) append(part []byte) {
	b.buffer = append(b.buffer, part...)
	if len(b.buffer) >= bodyBufferBytes {
		b.writeBuffer()
	}
}

// writeBuffer writes the buffer to the client. It keeps the first error.
func (b *responseBody) writeBuffer() {
	if b.err == nil {
		if b.acceptsGzip && b.compressor == nil {
			b.w.Header().Set("Content-Encoding", "gzip")
			b.compressor, _ = compressors.Get().(*gzip.Writer)
			b.compressor.Reset(b.w)
		}
		// Only connections of tests do not support deadlines.
		_ = b.controller.SetWriteDeadline(time.Now().Add(writeTimeout))
		out := io.Writer(b.w)
		if b.compressor != nil {
			out = b.compressor
		}
		_, b.err = out.Write(b.buffer)
	}

	b.buffer = b.buffer[:0]
}

// close writes the rest of the response.
func (b *responseBody) close() error {
	if b.compressor == nil && len(b.buffer) < minCompressBytes {
		b.acceptsGzip = false
	}

	b.writeBuffer()
	if b.err == nil && b.compressor != nil {
		b.err = b.compressor.Close()
	}
	if b.err != nil {
		abortResponse()
	}

	if b.compressor != nil {
		b.compressor.Reset(nil) // It must not hold the connection.
		compressors.Put(b.compressor)
	}
	return nil
}

// abortResponse closes the connection, so that the client notices that the response is
// incomplete.
func abortResponse() { panic(http.ErrAbortHandler) }
