package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// responseBody is the body of a response, before content negotiation.
type responseBody struct {
	// sum identifies the bytes. The entity tag is derived from it.
	sum         string
	contentType string
	modified    time.Time
	// size is the length in bytes, or -1 if it is not known before the body is generated.
	size int64
	// newReader returns a reader of the stored body. It is nil if the body must be generated.
	newReader func() io.ReadSeeker
	// writeTo writes the body.
	writeTo func(io.Writer) error
	// compressed returns a stored compressed form, if there is one. It can be nil.
	compressed func(catalogstore.Encoding) (*io.SectionReader, bool)
}

// serveBody writes a body in the encoding that the client prefers, or 304 if the client has it already.
func (h *handler) serveBody(w *responseWriter, r *http.Request, b responseBody) {
	header := w.Header()
	header.Set("Last-Modified", b.modified.UTC().Format(http.TimeFormat))
	// Content can change at any time, and revalidation is cheap.
	header.Set("Cache-Control", "no-cache")
	header.Add("Vary", "Accept-Encoding")
	if tag, same := isNotModified(r.Header, b.sum, b.modified); same {
		header.Set("ETag", tag)
		w.WriteHeader(http.StatusNotModified)
		return
	}

	header.Set("Content-Type", b.contentType)
	encoding, ok := h.chooseEncoding(r.Header, b)
	if !ok {
		header.Del("Last-Modified")
		writeError(w, http.StatusNotAcceptable, fmt.Sprintf("none of the accepted encodings is available: accept %s, %s or %s", encodingZstd, encodingGzip, encodingIdentity))
		return
	}

	if encoding != encodingIdentity && b.compressed != nil {
		form, ready := b.compressed(catalogstore.Encoding(encoding))
		metrics.RecordCacheLookup("kept", ready)
		if ready {
			h.serveEncoded(w, r, b, encoding, form, form.Size())
			return
		}
	}

	if encoding == encodingIdentity && b.newReader != nil {
		h.serveIdentity(w, r, b, b.newReader())
		return
	}

	h.serveGenerated(w, r, b, encoding)
}

// chooseEncoding returns the encoding of the response, or false if none is acceptable. Range requests
// and small bodies use identity if the client accepts it.
func (h *handler) chooseEncoding(header http.Header, b responseBody) (string, bool) {
	accepted := parseAcceptEncoding(header)
	best := accepted.preferredEncoding()
	if best != encodingIdentity && accepted.identity > 0 && (header.Get("Range") != "" || (b.size >= 0 && b.size <= minCompressedSize)) {
		best = encodingIdentity
	}
	return best, best != ""
}

// serveIdentity writes the uncompressed body or the requested ranges of it.
func (h *handler) serveIdentity(w *responseWriter, r *http.Request, b responseBody, content io.ReadSeeker) {
	w.Header().Set("ETag", formatEntityTag(b.sum, encodingIdentity))
	http.ServeContent(w, r, "", b.modified, content)
}

// serveEncoded writes a compressed body of a known size.
func (h *handler) serveEncoded(w *responseWriter, r *http.Request, b responseBody, encoding string, content io.Reader, size int64) {
	header := w.Header()
	header.Set("ETag", formatEntityTag(b.sum, encoding))
	header.Set("Content-Encoding", encoding)
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.ReadFrom(content) // The responseWriter records the error.
	}
}

const (
	// maxBufferedBytes is the maximum size of a generated body that is buffered in memory. A larger
	// body is streamed while it is generated.
	maxBufferedBytes = 1 << 20
	// maxPooledBuffer is the capacity of the largest buffer that is returned to the pool.
	maxPooledBuffer = 2 * maxBufferedBytes
)

var bufferPool = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// returnBuffer returns a buffer to the pool, unless it is too large.
func returnBuffer(buffer *bytes.Buffer) {
	if buffer.Cap() <= maxPooledBuffer {
		buffer.Reset()
		bufferPool.Put(buffer)
	}
}

// serveGenerated writes a body that is not stored. It uses the cache, or generates the body.
func (h *handler) serveGenerated(w *responseWriter, r *http.Request, b responseBody, encoding string) {
	text, found := h.cache.get(cacheKey{b.sum, encoding})
	metrics.RecordCacheLookup("made", found)
	if found {
		h.serveInMemory(w, r, b, encoding, text)
		return
	}
	if plain, found := h.cache.get(cacheKey{b.sum, encodingIdentity}); found {
		h.serveBuffered(w, r, b, encoding, plain)
		return
	}

	buffer := bufferPool.Get().(*bytes.Buffer)
	defer returnBuffer(buffer)
	s := &spillWriter{buffer: buffer, startStream: func() (io.Writer, func() error, error) { return beginStreaming(w, r, b, encoding) }}
	err := s.finishBody(b.writeTo(s))
	switch {
	case errors.Is(err, errHeadRequest):
	case err != nil && !s.streaming:
		h.serveError(w, err)
	case err != nil:
		w.err = err
	case !s.streaming:
		h.serveBuffered(w, r, b, encoding, buffer.Bytes())
	}
}

// serveBuffered encodes a generated body, adds it to the cache and writes it.
func (h *handler) serveBuffered(w *responseWriter, r *http.Request, b responseBody, encoding string, plain []byte) {
	if len(plain) <= minCompressedSize && parseAcceptEncoding(r.Header).identity > 0 {
		encoding = encodingIdentity
	}

	text := plain
	if encoding != encodingIdentity {
		buffer := bufferPool.Get().(*bytes.Buffer)
		defer returnBuffer(buffer)
		z, end := newPooledCompressor(buffer, encoding)
		_, err := z.Write(plain)
		if err := errors.Join(err, end()); err != nil {
			w.err = err
			return
		}

		text = buffer.Bytes()
	}

	if encoding != encodingIdentity || b.newReader == nil {
		// The buffer is reused.
		text = bytes.Clone(text)
		h.cache.put(cacheKey{b.sum, encoding}, text)
	}

	h.serveInMemory(w, r, b, encoding, text)
}

// serveInMemory writes an encoded body from memory.
func (h *handler) serveInMemory(w *responseWriter, r *http.Request, b responseBody, encoding string, text []byte) {
	if encoding == encodingIdentity {
		h.serveIdentity(w, r, b, bytes.NewReader(text))
		return
	}
	h.serveEncoded(w, r, b, encoding, bytes.NewReader(text), int64(len(text)))
}

// errHeadRequest aborts the generation of a body for a HEAD request.
var errHeadRequest = errors.New("only the header is requested")

// beginStreaming writes the header for a body of unknown length. It returns the writer of the body and a
// function that finishes the encoding, which can be nil.
func beginStreaming(w *responseWriter, r *http.Request, b responseBody, encoding string) (io.Writer, func() error, error) {
	w.Header().Set("ETag", formatEntityTag(b.sum, encoding))
	if encoding != encodingIdentity {
		w.Header().Set("Content-Encoding", encoding)
	}

	w.WriteHeader(http.StatusOK)
	switch {
	case r.Method == http.MethodHead:
		return nil, nil, errHeadRequest
	case encoding == encodingIdentity:
		return w, nil, nil
	}

	z, end := newPooledCompressor(w, encoding)
	return z, end, nil
}

// spillWriter buffers the written bytes up to maxBufferedBytes, and streams all bytes once there are more.
type spillWriter struct {
	buffer *bytes.Buffer
	// startStream returns the writer for streaming, and a function to call at the end.
	startStream  func() (io.Writer, func() error, error)
	streaming    bool
	out          io.Writer
	finishStream func() error
	err          error
}

func (s *spillWriter) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}

	if !s.streaming {
		if s.buffer.Len()+len(p) <= maxBufferedBytes {
			return s.buffer.Write(p)
		}

		s.streaming = true
		if s.out, s.finishStream, s.err = s.startStream(); s.err != nil {
			return 0, s.err
		}
		if _, s.err = s.out.Write(s.buffer.Bytes()); s.err != nil {
			return 0, s.err
		}

		s.buffer.Reset()
	}

	n, err := s.out.Write(p)
	s.err = err
	return n, err
}

// finishBody finishes the stream. It returns the error that made the body incomplete: err, or the error of
// finishing.
func (s *spillWriter) finishBody(err error) error {
	if s.finishStream == nil {
		return err
	}
	// This also runs after an error, because it releases resources. The connection is then aborted, so
	// that the client does not use the incomplete body.
	return errors.Join(err, s.finishStream())
}
