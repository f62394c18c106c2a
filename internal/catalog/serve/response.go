package serve

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// chunkSize is the number of bytes of a body that are read and sent at once.
	chunkSize = 64 << 10
	// chunkTimeout is the write timeout for one chunk. A client that reads slowly but steadily is
	// served to the end: 64 KiB in 30 seconds is 2 KiB/s.
	chunkTimeout = 30 * time.Second
)

// chunkPool contains buffers for bodies.
var chunkPool = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// responseWriter is an http.ResponseWriter with a write timeout for each chunk of a body. It records the
// status code, the number of bytes and the first error.
type responseWriter struct {
	http.ResponseWriter
	control      *http.ResponseController
	chunkTimeout time.Duration
	// cork is the connection below TLS, or nil.
	cork *corkedConn

	statusCode int
	bytes      int64
	// catalog is the name of the served catalog, or empty if it is not known yet.
	catalog string
	// err is the first error of sending the body.
	err error
}

func (w *responseWriter) WriteHeader(code int) {
	w.statusCode = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// extendWriteDeadline sets the write deadline to chunkTimeout from now.
func (w *responseWriter) extendWriteDeadline() error {
	if err := w.control.SetWriteDeadline(time.Now().Add(w.chunkTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// Write sends p in chunks. It implements io.Writer.
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.cork != nil {
		w.cork.startGathering()
	}

	written := 0
	for {
		n, err := w.writeChunk(p[written:min(len(p), written+chunkSize)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// finishResponse flushes the batched bytes of the response.
func (w *responseWriter) finishResponse() {
	if w.cork == nil || !w.cork.isGathering() {
		return
	}

	var err error
	if w.err == nil {
		// The buffer of net/http is sent in the same system call.
		err = w.control.Flush()
	}
	if err = errors.Join(err, w.cork.stopGathering()); err != nil && w.err == nil {
		w.err = err
	}
}

func (w *responseWriter) writeChunk(p []byte) (int, error) {
	err := w.extendWriteDeadline()
	n := 0
	if err == nil {
		n, err = w.ResponseWriter.Write(p)
	}

	w.bytes += int64(n)
	if err != nil && w.err == nil {
		w.err = err
	}

	return n, err
}

// ReadFrom sends the bytes of a reader until EOF. It implements io.ReaderFrom.
func (w *responseWriter) ReadFrom(r io.Reader) (int64, error) {
	buffer := chunkPool.Get().(*[chunkSize]byte)
	defer chunkPool.Put(buffer)
	sent := int64(0)
	for {
		n, end := readFull(buffer[:], r)
		if n > 0 {
			written, err := w.Write(buffer[:n])
			sent += int64(written)
			if err != nil {
				return sent, err
			}
		}
		switch {
		case errors.Is(end, io.EOF):
			return sent, nil
		case end != nil:
			w.err = end
			return sent, end
		}
	}
}

// readFull reads until the buffer is full or the reader returns an error.
func readFull(p []byte, r io.Reader) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = r.Read(p[n:])
		n += more
	}
	return n, err
}
