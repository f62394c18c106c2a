package serve

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
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
	_, _ = w.Write(append(text, '\n')) // An error means that the client has gone.
}

func writePlainText(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // An error means that the client has gone.
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
	compressor *gzip.Writer
	buffer     []byte
	err        error
}

const (
	// bodyBufferBytes is the size of one write.
	bodyBufferBytes = 64 << 10
	// minCompressBytes is the smallest response that is compressed.
	minCompressBytes = 16 << 10
)

func newResponseBody(w http.ResponseWriter, r *http.Request) *responseBody {
	w.Header().Set("Content-Type", mediaTypeJSON)
	w.Header().Add("Vary", "Accept, Accept-Encoding")
	b := &responseBody{w: w, controller: http.NewResponseController(w)}
	if acceptsGzip(r) {
		b.compressor, b.err = gzip.NewWriterLevel(w, gzip.BestSpeed) // Nothing is written yet.
	}
	return b
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
		if b.compressor != nil {
			b.w.Header().Set("Content-Encoding", "gzip")
		}
		// Only connections of tests do not support deadlines.
		_ = b.controller.SetWriteDeadline(time.Now().Add(writeTimeout))
		if b.compressor != nil {
			_, b.err = b.compressor.Write(b.buffer)
		} else {
			_, b.err = b.w.Write(b.buffer)
		}
	}

	b.buffer = b.buffer[:0]
}

// close writes the rest of the response.
func (b *responseBody) close() error {
	if b.compressor != nil && b.w.Header().Get("Content-Encoding") == "" && len(b.buffer) < minCompressBytes {
		b.compressor = nil
	}

	b.writeBuffer()
	if b.err == nil && b.compressor != nil {
		b.err = b.compressor.Close()
	}
	if b.err != nil {
		abortResponse()
	}

	return nil
}

// abortResponse closes the connection, so that the client notices that the response is
// incomplete.
func abortResponse() { panic(http.ErrAbortHandler) }
