package image

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

var (
	errStalled = errors.New("the registry stopped sending")
	errShort   = errors.New("the registry ended it too early")
)

// Bounds of taking up a download that broke off.
const (
	// maxResumes is how often in a row it is taken up without coming much further.
	maxResumes = 4
	// much is how far it must come, in bytes, for the count to begin again.
	much = 1 << 20
	// minRate is how many bytes must come before the time of a stall begins again. A line of
	// which one minute brings less will not end.
	minRate = 16 << 10
)

// blobReader reads a blob and verifies its size and digest on the way: it never gives a
// byte more than the manifest says, and ends with io.EOF only if all of it was right. A
// connection that breaks off is begun again where it broke off.
type blobReader struct {
	img   *Image
	layer layer
	limit int64 // bytes that are read when the manifest gives no size
	sum   hash.Hash
	read  int64
	err   error // why the blob itself could not be read; sticky

	ctx     context.Context //nolint:containedctx // a reader has no other way to be cancelled
	conn    *connection
	resumes int   // in a row
	since   int64 // what was read when the row began
}

// connection is one answer with a part of the blob.
type connection struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	cause  func() error
	skip   int64 // bytes at its start that were read before

	stall  time.Duration
	timer  *time.Timer   // ends the connection; it runs while bytes are waited for
	waited time.Duration // for the last so many bytes
	fresh  int
}

// blob opens a layer or a configuration. Foreign URLs that a manifest may name are never
// followed: an image must not choose which hosts this program talks to.
func (img *Image) blob(ctx context.Context, l layer) (*blobReader, error) {
	if !l.digest.Algorithm().Available() {
		return nil, badContent("the digest algorithm of %s is not known", l.digest)
	}
	if limit := img.client.opts.Limits.BlobBytes; l.size > limit {
		return nil, badContent("the blob %s has %d bytes, at most %d are read", l.digest, l.size, limit)
	}

	l.size = max(l.size, 0)
	b := &blobReader{
		img: img, layer: l, limit: img.client.opts.Limits.BlobBytes, sum: l.digest.Algorithm().Hash(), ctx: ctx,
	}
	if err := b.connect(ctx); err != nil {
		return nil, err
	}

	return b, nil
}

// connect opens the blob from where reading has come to.
func (b *blobReader) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &connection{cancel: cancel, cause: func() error { return context.Cause(ctx) }, stall: b.img.client.opts.Timeouts.Stall}
	opened, err := b.img.remote.blob(ctx, b.layer.digest, b.read)
	if err != nil {
		cancel(nil)
		return err
	}

	c.body, c.skip = opened.Body, b.read-opened.Offset
	c.timer = time.AfterFunc(c.stall, func() { cancel(errStalled) })
	c.timer.Stop()
	b.conn = c
	if size := b.layer.size; size > 0 && opened.Size >= 0 && opened.Size != size {
		_ = b.Close()
		return changedf(KindContent, "the blob %s has %d bytes in the registry, the manifest says %d", b.layer.digest, opened.Size, size)
	}

	return nil
}

// Read implements io.Reader.
func (b *blobReader) Read(p []byte) (int, error) {
	for b.err == nil {
		n, err := b.conn.Read(p)
		b.read += int64(n)
		_, _ = b.sum.Write(p[:n])
		size := b.layer.size
		switch {
		case size > 0 && b.read > size:
			b.err = changedf(KindContent, "the blob %s is longer than the %d bytes that the manifest says", b.layer.digest, size)
			return 0, b.err
		case b.read > b.limit:
			b.err = badContent("the blob %s has more than %d bytes", b.layer.digest, b.limit)
			return 0, b.err
		case err == nil:
		case errors.Is(err, io.EOF) && b.read >= size:
			b.err = b.verify()
		default:
			b.err = b.resume(err)
		}

		if n > 0 {
			return n, b.err
		}
	}

	return 0, b.err
}

// resume takes the blob up again after a connection broke off, a few times.
func (b *blobReader) resume(failure error) error {
	if errors.Is(failure, io.EOF) {
		failure = errShort
	}

	failed := fmt.Errorf("read the blob %s: connection failed after %d bytes: %w", b.layer.digest, b.read, failure)
	if b.read-b.since >= much {
		b.resumes, b.since = 0, b.read
	}

	for b.resumes++; ; b.resumes++ {
		if b.ctx.Err() != nil || b.resumes > maxResumes {
			return failed
		}

		_ = b.Close()
		if b.resumes > 1 && b.img.remote.skip() {
			b.resumes = 1
		}
		if b.img.client.shared.Wait(b.ctx, b.resumes) != nil {
			return failed
		}

		err := b.connect(b.ctx)
		var status *registry.StatusError
		switch {
		case err == nil:
			return nil
		case isBadContent(err):
			return err
		case errors.As(err, &status):
			return fmt.Errorf("%w (and then: %w)", failed, err)
		}
	}
}

func (b *blobReader) verify() error {
	if got := hex.EncodeToString(b.sum.Sum(nil)); got != b.layer.digest.Encoded() {
		return changedf(KindUnavailable, "what the registry sent as the blob %s has the digest %s:%s: it was changed on the way or in the registry", b.layer.digest, b.layer.digest.Algorithm(), got)
	}
	return io.EOF
}

// drain reads what is left, so that all of the blob is verified.
func (b *blobReader) drain() error {
	_, err := io.Copy(io.Discard, b)
	return err
}

// Close releases the connection.
func (b *blobReader) Close() error {
	b.conn.timer.Stop()
	b.conn.cancel(nil)
	return b.conn.body.Close()
}

// Read reads what was not read before.
func (c *connection) Read(p []byte) (int, error) {
	for c.skip > 0 {
		n, err := c.await(p[:min(int64(len(p)), c.skip)])
		c.skip -= int64(n)
		if err != nil {
			return 0, err
		}
	}

	return c.await(p)
}

// await reads, and gives up when too few bytes come. An error that this caused is named so:
// net/http gives its cause or only "context canceled", depending on where the request
// stood.
func (c *connection) await(p []byte) (int, error) {
	start := time.Now()
	c.timer.Reset(max(c.stall-c.waited, time.Millisecond))
	n, err := c.body.Read(p)
	c.timer.Stop()
	c.waited += time.Since(start)
	if c.fresh += n; c.fresh >= minRate {
		c.fresh, c.waited = 0, 0
	}
	if err != nil && (errors.Is(err, errStalled) || errors.Is(err, context.Canceled) && errors.Is(c.cause(), errStalled)) {
		return n, fmt.Errorf("%w for %s", errStalled, c.stall)
	}

	return n, err
}
