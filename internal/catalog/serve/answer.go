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

// body is what a request is answered with.
type body struct {
	// sum names the bytes, and so does the entity tag.
	sum         string
	contentType string
	modified    time.Time
	// size is its length in bytes, or -1 when it is not known before it is made.
	size int64
	// read reads it from disk. Nil when it has to be made.
	read func() io.ReadSeeker
	// write writes it.
	write func(io.Writer) error
	// kept returns a compressed form of it, if there is one.
	kept func(catalogstore.Encoding) (*io.SectionReader, bool)
}

// give answers a request with a body, in the form that the client likes best.
func (h *handler) give(w *response, r *http.Request, b body) {
	header := w.Header()
	header.Set("Last-Modified", b.modified.UTC().Format(http.TimeFormat))
	// Content may change at any time, and asking whether it did is cheap.
	header.Set("Cache-Control", "no-cache")
	header.Add("Vary", "Accept-Encoding")
	if tag, same := matches(r.Header, b.sum, b.modified); same {
		header.Set("ETag", tag)
		w.WriteHeader(http.StatusNotModified)
		return
	}

	header.Set("Content-Type", b.contentType)
	encoding, ok := h.choose(r.Header, b)
	if !ok {
		header.Del("Last-Modified")
		fail(w, http.StatusNotAcceptable, fmt.Sprintf("no encoding that is accepted can be given: accept %s, %s or %s", encodingZstd, encodingGzip, encodingIdentity))
		return
	}

	if encoding != encodingIdentity && b.kept != nil {
		form, ready := b.kept(catalogstore.Encoding(encoding))
		metrics.Found("kept", ready)
		if ready {
			h.giveCompressed(w, r, b, encoding, form, form.Size())
			return
		}
	}

	if encoding == encodingIdentity && b.read != nil {
		h.givePlain(w, r, b, b.read())
		return
	}

	h.giveMade(w, r, b, encoding)
}

// choose chooses the encoding. Parts of a body are parts of the plain one, and what is
// small is better sent plain: unless the client wants it otherwise.
func (h *handler) choose(header http.Header, b body) (string, bool) {
	accepted := accepts(header)
	best := accepted.best()
	if best != encodingIdentity && accepted.identity > 0 && (header.Get("Range") != "" || (b.size >= 0 && b.size <= compressFrom)) {
		best = encodingIdentity
	}
	return best, best != ""
}

// givePlain answers with a body as it is, or the parts of it that are asked for.
func (h *handler) givePlain(w *response, r *http.Request, b body, content io.ReadSeeker) {
	w.Header().Set("ETag", entityTag(b.sum, encodingIdentity))
	http.ServeContent(w, r, "", b.modified, content)
}

// giveCompressed answers with a compressed body.
func (h *handler) giveCompressed(w *response, r *http.Request, b body, encoding string, content io.Reader, size int64) {
	header := w.Header()
	header.Set("ETag", entityTag(b.sum, encoding))
	header.Set("Content-Encoding", encoding)
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.ReadFrom(content) // The response remembers the error.
	}
}

const (
	// spillBytes is how much of a body that is made is gathered in memory. What is longer is
	// sent while it is made.
	spillBytes = 1 << 20
	// pooledBytes is the largest buffer that is used again.
	pooledBytes = 2 * spillBytes
)

var buffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

func release(buffer *bytes.Buffer) {
	if buffer.Cap() <= pooledBytes {
		buffer.Reset()
		buffers.Put(buffer)
	}
}

// giveMade answers with a body that has to be made, unless it was kept when it was made
// before.
func (h *handler) giveMade(w *response, r *http.Request, b body, encoding string) {
	text, found := h.cache.get(cacheKey{b.sum, encoding})
	metrics.Found("made", found)
	if found {
		h.giveText(w, r, b, encoding, text)
		return
	}
	if plain, found := h.cache.get(cacheKey{b.sum, encodingIdentity}); found {
		h.giveGathered(w, r, b, encoding, plain)
		return
	}

	buffer := buffers.Get().(*bytes.Buffer)
	defer release(buffer)
	s := &spill{buffer: buffer, begin: func() (io.Writer, func() error, error) { return begin(w, r, b, encoding) }}
	err := s.end(b.write(s))
	switch {
	case errors.Is(err, errNoBody):
	case err != nil && !s.begun:
		h.refuse(w, err)
	case err != nil:
		w.err = err
	case !s.begun:
		h.giveGathered(w, r, b, encoding, buffer.Bytes())
	}
}

// giveGathered answers with a body that was made, and keeps it.
func (h *handler) giveGathered(w *response, r *http.Request, b body, encoding string, plain []byte) {
	if len(plain) <= compressFrom && accepts(r.Header).identity > 0 {
		encoding = encodingIdentity
	}

	text := plain
	if encoding != encodingIdentity {
		buffer := buffers.Get().(*bytes.Buffer)
		defer release(buffer)
		z, end := compressing(buffer, encoding)
		_, err := z.Write(plain)
		if err := errors.Join(err, end()); err != nil {
			w.err = err
			return
		}

		text = buffer.Bytes()
	}

	if encoding != encodingIdentity || b.read == nil {
		// The buffer is used again.
		text = bytes.Clone(text)
		h.cache.put(cacheKey{b.sum, encoding}, text)
	}

	h.giveText(w, r, b, encoding, text)
}

// giveText answers with a body that is in memory.
func (h *handler) giveText(w *response, r *http.Request, b body, encoding string, text []byte) {
	if encoding == encodingIdentity {
		h.givePlain(w, r, b, bytes.NewReader(text))
		return
	}
	h.giveCompressed(w, r, b, encoding, bytes.NewReader(text), int64(len(text)))
}

// errNoBody ends the making of a body that is not to be sent.
var errNoBody = errors.New("only the header is asked for")

// begin begins to answer with a body of unknown length.
func begin(w *response, r *http.Request, b body, encoding string) (io.Writer, func() error, error) {
	w.Header().Set("ETag", entityTag(b.sum, encoding))
	if encoding != encodingIdentity {
		w.Header().Set("Content-Encoding", encoding)
	}

	w.WriteHeader(http.StatusOK)
	switch {
	case r.Method == http.MethodHead:
		return nil, nil, errNoBody
	case encoding == encodingIdentity:
		return w, nil, nil
	}

	z, end := compressing(w, encoding)
	return z, end, nil
}

// spill gathers what is written until it is too much, and then sends it on.
type spill struct {
	buffer *bytes.Buffer
	// begin returns where to send it, and a function that is called at the end.
	begin  func() (io.Writer, func() error, error)
	begun  bool
	out    io.Writer
	finish func() error
	err    error
}

func (s *spill) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}

	if !s.begun {
		if s.buffer.Len()+len(p) <= spillBytes {
			return s.buffer.Write(p)
		}

		s.begun = true
		if s.out, s.finish, s.err = s.begin(); s.err != nil {
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

// end ends the body. It gives the error that it is not complete for.
func (s *spill) end(err error) error {
	if s.finish == nil {
		return err
	}
	// Also after an error: it releases what was taken. What is sent then is of no use to
	// the client, who sees the connection break.
	return errors.Join(err, s.finish())
}
