package signature

import (
	"encoding/json"
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Types of statements.
const (
	// typeAtomic is the type of OpenPGP statements.
	typeAtomic = "atomic container signature"
	// typeCosign is the type of sigstore's statements.
	typeCosign = "cosign container image signature"
)

// statement is the signed statement about an image.
type statement struct {
	Critical critical `json:"critical"`
	Optional optional `json:"optional"`
}

type critical struct {
	Type     string   `json:"type"`
	Image    imageID  `json:"image"`
	Identity identity `json:"identity"`
}

type imageID struct {
	Digest string `json:"docker-manifest-digest"`
}

type identity struct {
	Reference string `json:"docker-reference"`
}

type optional struct {
	Creator   string `json:"creator,omitempty"`
	Timestamp int64  `json:"timestamp,omitempty"` // in seconds since 1970
}

// newStatement encodes a statement about an image.
func newStatement(kind string, digest Digest, reference string, more any) ([]byte, error) {
	if reference == "" {
		return nil, errors.New("the name of the image is required: it is part of the signed statement")
	}
	return json.Marshal(struct {
		Critical critical `json:"critical"`
		Optional any      `json:"optional"`
	}{
		Critical: critical{Type: kind, Image: imageID{digest.String()}, Identity: identity{reference}}, Optional: more,
	})
}

// checkAtomicStatement returns an error unless an OpenPGP statement is about the image. It
// rejects unknown fields, because they may restrict the statement.
func checkAtomicStatement(data []byte, digest Digest) error {
	var s statement
	strict, err := kjson.UnmarshalStrict(data, &s)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return fmt.Errorf("the signed statement cannot be read: %s", excerpt.Line(err.Error(), maxTextBytes))
	}
	if s.Critical.Identity.Reference == "" {
		return errors.New("the signed statement names no image: its docker-reference is empty")
	}

	return s.Critical.checkSubject(typeAtomic, digest)
}

// checkCosignStatement returns an error unless a sigstore statement is about the image. Its
// optional part may contain anything.
func checkCosignStatement(data []byte, digest Digest) error {
	var s struct {
		Critical critical        `json:"critical"`
		Optional json.RawMessage `json:"optional"`
	}
	strict, err := kjson.UnmarshalStrict(data, &s)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return fmt.Errorf("the signed statement cannot be read: %s", excerpt.Line(err.Error(), maxTextBytes))
	}

	return s.Critical.checkSubject(typeCosign, digest)
}

func (c critical) checkSubject(kind string, digest Digest) error {
	switch {
	case c.Type != kind:
		return fmt.Errorf("the signed statement is of type %q, not %q", excerpt.Line(c.Type, maxTextBytes), kind)
	case c.Image.Digest != digest.String():
		return fmt.Errorf("the signed statement is about another image, %q", excerpt.Line(c.Image.Digest, maxTextBytes))
	default:
		return nil
	}
}
