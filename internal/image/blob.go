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
	errStalled   = errors.New("the registry stopped sending")
	errTruncated = errors.New("the registry ended it too early")
)

// Limits of resuming an interrupted download.
const (
	// maxResumes is how often in a row a download is resumed without minResumeProgress.
	maxResumes = 4
	// minResumeProgress is how many bytes must be read for the count of resumes to begin
	// again.
	minResumeProgress = 1 << 20
	// minStallProgress is how many bytes must be read for the stall timeout to begin again. At a
	// lower rate the download of a layer would practically never end.
	minStallProgress = 16 << 10
)

// blobReader reads a blob and verifies its size and digest. It never returns more bytes
// than the manifest specifies, and returns io.EOF only if the whole blob is valid. It
// resumes an interrupted connection at the same offset.
type blobReader struct {
	content remoteContent
	layer   layer
	limit   int64 // maximum size when the manifest has none
	hash    hash.Hash
	offset  int64 // bytes read so far
	err     error // why the blob could not be read; sticky

	ctx       context.Context //nolint:containedctx // a reader has no other way to be cancelled
	conn      *blobConnection
	resumes   int   // in a row
	rowOffset int64 // offset at the start of the row
}

// blobConnection is one response with a part of the blob.
type blobConnection struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	cause  func() error
	skip   int64 // bytes at its start that were read before

	stall       time.Duration
	timer       *time.Timer   // cancels the connection; runs during a read
	recentWait  time.Duration // spent on reading recentBytes
	recentBytes int
}

// openVerifiedBlob opens a layer or a configuration. It never follows foreign URLs of a
// manifest: an image must not choose which hosts this program connects to.
func (c remoteContent) openVerifiedBlob(ctx context.Context, l layer) (*blobReader, error) {
	if !l.digest.Algorithm().Available() {
		return nil, contentErrorf("the digest algorithm of %s is not known", l.digest)
	}
	if limit := c.opts.Limits.BlobBytes; l.size > limit {
		return nil, contentErrorf("the blob %s has %d bytes, at most %d are read", l.digest, l.size, limit)
	}

	l.size = max(l.size, 0)
	b := &blobReader{
		content: c, layer: l, limit: c.opts.Limits.BlobBytes, hash: l.digest.Algorithm().Hash(), ctx: ctx,
	}
	if err := b.openConnection(ctx); err != nil {
		return nil, err
	}

	return b, nil
}

// openConnection opens the blob at the current offset.
func (b *blobReader) openConnection(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &blobConnection{cancel: cancel, cause: func() error { return context.Cause(ctx) }, stall: b.content.opts.Timeouts.Stall}
	opened, err := b.content.remote.openBlobAt(ctx, b.layer.digest, b.offset)
	if err != nil {
		cancel(nil)
		return err
	}

	c.body = opened.Body
	c.skip = b.offset - opened.Offset
	c.timer = time.AfterFunc(c.stall, func() { cancel(errStalled) })
	c.timer.Stop()
	b.conn = c
	if size := b.layer.size; size > 0 && opened.Size >= 0 && opened.Size != size {
		_ = b.Close()
		return digestMismatchf(KindContent, "the blob %s has %d bytes in the registry, the manifest says %d", b.layer.digest, opened.Size, size)
	}

	return nil
}

// Read implements io.Reader.
func (b *blobReader) Read(p []byte) (int, error) {
	for b.err == nil {
		n, err := b.conn.Read(p)
		b.offset += int64(n)
		_, _ = b.hash.Write(p[:n])
		size := b.layer.size
		switch {
		case size > 0 && b.offset > size:
			b.err = digestMismatchf(KindContent, "the blob %s is longer than the %d bytes that the manifest says", b.layer.digest, size)
			return 0, b.err
		case b.offset > b.limit:
			b.err = contentErrorf("the blob %s has more than %d bytes", b.layer.digest, b.limit)
			return 0, b.err
		case err == nil:
		case errors.Is(err, io.EOF) && b.offset >= size:
			b.err = b.verifyDigest()
		default:
			b.err = b.resumeDownload(err)
		}

		if n > 0 {
			return n, b.err
		}
	}

	return 0, b.err
}

// resumeDownload opens a new connection after failure, up to maxResumes times.
func (b *blobReader) resumeDownload(failure error) error {
	if errors.Is(failure, io.EOF) {
		failure = errTruncated
	}

	failed := fmt.Errorf("read the blob %s: connection failed after %d bytes: %w", b.layer.digest, b.offset, failure)
	if b.offset-b.rowOffset >= minResumeProgress {
		b.resumes = 0
		b.rowOffset = b.offset
	}

	for b.resumes++; ; b.resumes++ {
		if b.ctx.Err() != nil || b.resumes > maxResumes {
			return failed
		}

		_ = b.Close()
		if b.resumes > 1 && b.content.remote.skipToNextSource() {
			b.resumes = 1
		}
		if b.content.shared.WaitBeforeRetry(b.ctx, b.resumes) != nil {
			return failed
		}

		err := b.openConnection(b.ctx)
		var status *registry.StatusError
		switch {
		case err == nil:
			return nil
		case isContentError(err):
			return err
		case errors.As(err, &status):
			return fmt.Errorf("%w (and then: %w)", failed, err)
		}
	}
}

// verifyDigest returns io.EOF if the content has the digest of the manifest.
func (b *blobReader) verifyDigest() error {
	if got := hex.EncodeToString(b.hash.Sum(nil)); got != b.layer.digest.Encoded() {
		return digestMismatchf(KindUnavailable, "what the registry sent as the blob %s has the digest %s:%s: it was changed in transit or in the registry", b.layer.digest, b.layer.digest.Algorithm(), got)
	}
	return io.EOF
}

// verifyRemainder reads the rest of the blob, so that its digest is verified.
func (b *blobReader) verifyRemainder() error {
	_, err := io.Copy(io.Discard, b)
	return err
}

// Close releases the connection.
func (b *blobReader) Close() error {
	b.conn.timer.Stop()
	b.conn.cancel(nil)
	return b.conn.body.Close()
}

// Read implements io.Reader. It skips bytes that were read before.
func (c *blobConnection) Read(p []byte) (int, error) {
	for c.skip > 0 {
		n, err := c.readWithStallTimeout(p[:min(int64(len(p)), c.skip)])
		c.skip -= int64(n)
		if err != nil {
			return 0, err
		}
	}

	return c.readWithStallTimeout(p)
}

// readWithStallTimeout reads, and returns errStalled when too few bytes arrive. For a
// cancelled request, net/http returns the cause or only "context canceled", depending on
// the state of the request. Both become errStalled.
func (c *blobConnection) readWithStallTimeout(p []byte) (int, error) {
	start := time.Now()
	c.timer.Reset(max(c.stall-c.recentWait, time.Millisecond))
	n, err := c.body.Read(p)
	c.timer.Stop()
	c.recentWait += time.Since(start)
	if c.recentBytes += n; c.recentBytes >= minStallProgress {
		c.recentBytes = 0
		c.recentWait = 0
	}
	if err != nil && (errors.Is(err, errStalled) || errors.Is(err, context.Canceled) && errors.Is(c.cause(), errStalled)) {
		return n, fmt.Errorf("%w for %s", errStalled, c.stall)
	}

	return n, err
}
