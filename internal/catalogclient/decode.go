package catalogclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// acceptEncoding lists the encodings that decompressBody supports.
const acceptEncoding = "zstd, gzip"

// maxWindowBytes bounds the memory of a decompressor. It is the maximum for zstd over HTTP (RFC
// 9659).
const maxWindowBytes = 8 << 20

// decompressBody returns the body of a response, decompressed and bounded. The caller closes it.
func (c *Client) decompressBody(resp *http.Response) (io.ReadCloser, error) {
	wire := connectionReader{resp.Body}
	var plain io.Reader = wire
	end := func() {}
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(wire)
		if err != nil {
			return nil, fmt.Errorf("decompressing the response: %w", err)
		}
		plain = z
	case "zstd":
		z, err := zstd.NewReader(wire, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindowBytes), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("decompressing the response: %w", err)
		}
		plain, end = z, z.Close
	default:
		return nil, fmt.Errorf("the response is encoded in %.50q, which was not requested", encoding)
	}

	return &decodedBody{Reader: &boundedReader{r: plain, left: c.opts.MaxBytes, limit: c.opts.MaxBytes}, end: end, wire: resp.Body}, nil
}

type decodedBody struct {
	io.Reader
	end  func()
	wire io.Closer
}

func (b *decodedBody) Close() error {
	b.end()
	return b.wire.Close()
}

// connectionError is returned if a response ended early.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// connectionReader marks errors of the connection, to distinguish them from errors of the
// decompressor.
type connectionReader struct{ r io.Reader }

func (c connectionReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &connectionError{err}
	}
	return n, err
}

// tooLargeError is returned if a response exceeds the limit.
type tooLargeError struct{ limit int64 }

func (e *tooLargeError) Error() string { return fmt.Sprintf("it is larger than %d bytes", e.limit) }

// boundedReader bounds the size of a response.
type boundedReader struct {
	r           io.Reader
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &tooLargeError{limit: b.limit}
	}
	return n, err
}
