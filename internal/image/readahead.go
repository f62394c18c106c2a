package image

import "io"

// Buffers of a readAhead, enough so that neither side waits for short delays of the other.
const (
	readAheadBuffers     = 4
	readAheadBufferBytes = 256 << 10
)

// readAhead reads in its own goroutine, so that decompressing and unpacking run
// concurrently.
type readAhead struct {
	filled chan filledBuffer
	free   chan []byte
	stop   chan struct{}

	current []byte // unread part of buffer
	buffer  []byte
	err     error
}

type filledBuffer struct {
	data []byte
	err  error
}

// newReadAhead starts to read. The caller closes it before using r again.
func newReadAhead(r io.Reader) *readAhead {
	a := &readAhead{
		filled: make(chan filledBuffer, readAheadBuffers), free: make(chan []byte, readAheadBuffers), stop: make(chan struct{}),
	}
	for range readAheadBuffers {
		a.free <- make([]byte, readAheadBufferBytes)
	}

	go a.fillBuffers(r)
	return a
}

func (a *readAhead) fillBuffers(r io.Reader) {
	defer close(a.filled)
	for {
		select {
		case <-a.stop:
			return
		case buffer := <-a.free:
			n, err := fillBuffer(r, buffer)
			a.filled <- filledBuffer{buffer[:n], err} // The channel has room for every buffer.
			if err != nil {
				return
			}
		}
	}
}

// fillBuffer reads until the buffer is full or there is an error, which it returns
// unchanged.
func fillBuffer(r io.Reader, buffer []byte) (int, error) {
	n := 0
	for n < len(buffer) {
		m, err := r.Read(buffer[n:])
		n += m
		if err != nil {
			return n, err
		}
	}

	return n, nil
}

// Read implements io.Reader.
func (a *readAhead) Read(p []byte) (int, error) {
	for len(a.current) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		if a.buffer != nil {
			a.free <- a.buffer[:cap(a.buffer)]
			a.buffer = nil
		}
		next := <-a.filled
		a.current = next.data
		a.buffer = next.data
		a.err = next.err
	}

	n := copy(p, a.current)
	a.current = a.current[n:]
	return n, nil
}

// Close stops reading, and waits until the goroutine has ended.
func (a *readAhead) Close() {
	close(a.stop)
	// Discard the buffers that were read ahead.
	for range a.filled {
	}
}
