package serve

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// chunkBytes is how much of a body is read and sent at once.
	chunkBytes = 64 << 10
	// stall is how long a client may take to accept one chunk. A client that reads slowly
	// but steadily is served to the end: 64 KiB in 30 seconds is 2 KiB/s.
	stall = 30 * time.Second
)

// chunks are buffers for bodies.
var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// response is what a handler answers with. Each chunk of a body has a time limit of its
// own, and what was answered is remembered.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	// cork is that of the connection, nil when it has none.
	cork *corkedConn

	code  int
	bytes int64
	// catalog is the one whose content is answered with, once that is known.
	catalog string
	// err is why the body could not be sent to its end.
	err error
}

func (w *response) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// patience returns the client the time of one chunk, from now on.
func (w *response) patience() error {
	if err := w.control.SetWriteDeadline(time.Now().Add(w.stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// Write sends a chunk or several.
func (w *response) Write(p []byte) (int, error) {
	if w.cork != nil {
		w.cork.hold()
	}

	written := 0
	for {
		n, err := w.chunk(p[written:min(len(p), written+chunkBytes)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// end sends what was gathered of the answer.
func (w *response) end() {
	if w.cork == nil || !w.cork.isHeld() {
		return
	}

	var err error
	if w.err == nil {
		// What net/http has buffered goes along, in the same system call.
		err = w.control.Flush()
	}
	if err = errors.Join(err, w.cork.release()); err != nil && w.err == nil {
		w.err = err
	}
}

func (w *response) chunk(p []byte) (int, error) {
	err := w.patience()
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

// ReadFrom sends what a reader gives, to its end.
func (w *response) ReadFrom(r io.Reader) (int64, error) {
	buffer := chunks.Get().(*[chunkBytes]byte)
	defer chunks.Put(buffer)
	sent := int64(0)
	for {
		n, end := fill(buffer[:], r)
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

// fill reads until a buffer is full or nothing more can be read.
func fill(p []byte, r io.Reader) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = r.Read(p[n:])
		n += more
	}
	return n, err
}
