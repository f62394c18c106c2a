package image

import "io"

// Buffers of a readAhead: enough that neither side waits for the other's small delays.
const (
	aheadBuffers = 4
	aheadBytes   = 256 << 10
)

// readAhead reads in a goroutine of its own, so that decompressing and unpacking go on side
// by side.
type readAhead struct {
	filled chan filledBuffer
	free   chan []byte
	stop   chan struct{}

	current []byte // what is left of buffer
	buffer  []byte
	err     error
}

type filledBuffer struct {
	data []byte
	err  error
}

// newReadAhead begins to read. The caller closes it before it does anything else with r.
func newReadAhead(r io.Reader) *readAhead {
	a := &readAhead{
		filled: make(chan filledBuffer, aheadBuffers), free: make(chan []byte, aheadBuffers), stop: make(chan struct{}),
	}
	for range aheadBuffers {
		a.free <- make([]byte, aheadBytes)
	}

	go a.fill(r)
	return a
}

func (a *readAhead) fill(r io.Reader) {
	defer close(a.filled)
	for {
		select {
		case <-a.stop:
			return
		case buffer := <-a.free:
			n, err := readFull(r, buffer)
			a.filled <- filledBuffer{buffer[:n], err} // There is room for every buffer.
			if err != nil {
				return
			}
		}
	}
}

// readFull reads until the buffer is full or there is an error, as it is.
func readFull(r io.Reader, buffer []byte) (int, error) {
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
		a.current, a.buffer, a.err = next.data, next.data, next.err
	}

	n := copy(p, a.current)
	a.current = a.current[n:]
	return n, nil
}

// Close ends the reading, and waits until the goroutine is gone.
func (a *readAhead) Close() {
	close(a.stop)
	// What was read ahead is not wanted.
	for range a.filled {
	}
}
