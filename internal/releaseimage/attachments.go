package releaseimage

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// Media type and annotation of cosign's signatures.
const (
	mediaTypeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	annotationSignature    = "dev.cosignproject.cosign/signature"
)

// Attachments are the sigstore signatures of images in a repository, under the tag
// <algorithm>-<hex>.sig.
type Attachments struct {
	Client *image.Client
	// Repository is the repository without tag and digest.
	Repository string
}

var _ signature.Attachments = Attachments{}

// String returns the name of the repository.
func (a Attachments) String() string { return "the repository " + a.Repository }

// Reference returns the reference of the signatures of an image.
func (a Attachments) Reference(digest signature.Digest) string {
	return a.Repository + ":" + signatureTag(digest)
}

// signatureTag returns the tag of the signatures of an image.
func signatureTag(digest signature.Digest) string {
	return digest.Algorithm + "-" + digest.Hex + ".sig"
}

// Attachments returns the signatures of an image. It is no error if there are none.
func (a Attachments) Attachments(ctx context.Context, digest signature.Digest) iter.Seq2[signature.Attachment, error] {
	return func(yield func(signature.Attachment, error) bool) {
		parts, err := a.pullAttachments(ctx, digest)
		if err != nil {
			yield(signature.Attachment{}, err)
			return
		}
		for _, part := range parts {
			text, ok := part.Annotations[annotationSignature]
			if part.MediaType != mediaTypeSimpleSigning || !ok {
				continue
			}

			made, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				err = fmt.Errorf("%s: a signature is not written in base64", a)
			}
			if !yield(signature.Attachment{Payload: part.Data, Signature: made}, err) {
				return
			}
		}
	}
}

func (a Attachments) pullAttachments(ctx context.Context, digest signature.Digest) ([]image.Attached, error) {
	parts, err := a.Client.PullAttached(ctx, a.Reference(digest))
	if failed := (*image.Error)(nil); errors.As(err, &failed) && failed.Kind == image.KindNotFound {
		return nil, nil
	}
	return parts, err
}

// Attach adds a signature to an image, after the existing ones.
func (a Attachments) Attach(ctx context.Context, digest signature.Digest, made signature.Attachment) error {
	parts, err := a.pullAttachments(ctx, digest)
	if err != nil {
		return err
	}

	part := image.Attached{
		MediaType: mediaTypeSimpleSigning, Data: made.Payload,
		Annotations: map[string]string{annotationSignature: base64.StdEncoding.EncodeToString(made.Signature)},
	}
	_, err = a.Client.PushAttached(ctx, a.Reference(digest), append(slices.Clip(parts), part))
	return err
}
