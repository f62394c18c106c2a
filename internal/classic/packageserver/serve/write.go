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

const typeJSON = "application/json"

// patience is how long a client may take to accept a part of an answer.
const patience = 30 * time.Second

// writeError answers with an error, as a Status.
func writeError(w http.ResponseWriter, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}

	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	text, err := json.Marshal(status)
	if err != nil { // It is made of texts and numbers.
		http.Error(w, status.Message, int(status.Code))
		return
	}

	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(append(text, '\n')) // A client that is gone misses nothing.
}

func writeText(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // A client that is gone misses nothing.
	return nil
}

// writeJSON answers with a text in JSON.
func writeJSON(w http.ResponseWriter, r *http.Request, text []byte) error {
	body := newBody(w, r)
	body.write(text)
	body.write([]byte{'\n'})
	return body.close()
}

// body is an answer that is written part by part. It is compressed for a client that accepts it.
type body struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	compress *gzip.Writer
	buffer   []byte
	err      error
}

const (
	// bodyBuffer is how much is written at a time.
	bodyBuffer = 64 << 10
	// worthwhile is how long a text is at least that is compressed.
	worthwhile = 16 << 10
)

func newBody(w http.ResponseWriter, r *http.Request) *body {
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Add("Vary", "Accept, Accept-Encoding")
	b := &body{w: w, control: http.NewResponseController(w)}
	if acceptsGzip(r) {
		b.compress, b.err = gzip.NewWriterLevel(w, gzip.BestSpeed) // Nothing is written yet.
	}
	return b
}

// acceptsGzip reports whether a client takes answers compressed.
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

func (b *body) write(part []byte) {
	b.buffer = append(b.buffer, part...)
	if len(b.buffer) >= bodyBuffer {
		b.flush()
	}
}

// flush sends what was written so far. The first error is kept.
func (b *body) flush() {
	if b.err == nil {
		if b.compress != nil {
			b.w.Header().Set("Content-Encoding", "gzip")
		}
		// A connection that has no deadlines is one of a test.
		_ = b.control.SetWriteDeadline(time.Now().Add(patience))
		if b.compress != nil {
			_, b.err = b.compress.Write(b.buffer)
		} else {
			_, b.err = b.w.Write(b.buffer)
		}
	}

	b.buffer = b.buffer[:0]
}

// close sends the rest.
func (b *body) close() error {
	if b.compress != nil && b.w.Header().Get("Content-Encoding") == "" && len(b.buffer) < worthwhile {
		b.compress = nil
	}

	b.flush()
	if b.err == nil && b.compress != nil {
		b.err = b.compress.Close()
	}
	if b.err != nil {
		abort()
	}

	return nil
}

// abort breaks the connection, so that what was sent of an answer is not taken for all of it.
func abort() { panic(http.ErrAbortHandler) }
