package signature

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Error is returned for a release without the required signatures.
type Error struct {
	// Digest is the digest of the release image.
	Digest string
	// Kind is the kind of required signers: "keyrings" or "keys".
	Kind string
	// Missing are the names of the keyrings or keys without a valid signature.
	Missing []string
	// Causes are the errors that were found, in order: at most 64.
	Causes []Cause
}

// Cause is an error about a signature or a store.
type Cause struct {
	// Time is when the error was found.
	Time time.Time
	Err  error
}

// Error returns the digest and the missing signers. Detail adds the causes.
func (e *Error) Error() string {
	return fmt.Sprintf("unable to verify %s against %s: %s", e.Digest, e.Kind, strings.Join(e.Missing, ", "))
}

// Unwrap returns the causes.
func (e *Error) Unwrap() []error {
	errs := make([]error, len(e.Causes))
	for i, cause := range e.Causes {
		errs[i] = cause.Err
	}
	return errs
}

// Detail returns the error with its causes, one per line with its time.
func (e *Error) Detail() string {
	lines := []string{e.Error()}
	for _, cause := range e.Causes {
		lines = append(lines, fmt.Sprintf("  %s: %v", cause.Time.UTC().Format(time.RFC3339), cause.Err))
	}
	return strings.Join(lines, "\n")
}

// Detail returns the text of a verification error with all causes. For other errors it returns
// the error text.
func Detail(err error) string {
	own := (*Error)(nil)
	if joined := (verifierErrors)(nil); errors.As(err, &joined) {
		lines := make([]string, len(joined))
		for i, err := range joined {
			lines[i] = Detail(err)
		}
		return strings.Join(lines, "\n")
	}

	if !errors.As(err, &own) {
		return err.Error()
	}
	return own.Detail()
}

// verifierErrors are the errors of several verifiers.
type verifierErrors []error

func (r verifierErrors) Error() string { return errors.Join(r...).Error() }

func (r verifierErrors) Unwrap() []error { return r }

// maxCauses is the maximum number of causes in an error: those of a few stores with nine
// signatures each.
const maxCauses = 64

// maxTriedSignatures is the maximum number of signatures that are verified per digest: those of
// dozens of stores. Each takes up to a millisecond.
const maxTriedSignatures = 500

// signatureSearch searches signatures until every signer has a valid one.
type signatureSearch[T any] struct {
	digest Digest
	kind   string
	store  string
	now    func() time.Time
	// signers are the names of the required signers.
	signers []string
	// verify returns an error unless a signature is a valid signature of the signer with an
	// index.
	verify func(signature T, signer int) error
}

// findSignatures returns a set of signatures that satisfies all signers, or an *Error.
func (s signatureSearch[T]) findSignatures(ctx context.Context, found iter.Seq2[T, error]) ([]T, error) {
	failed := &Error{Digest: s.digest.String(), Kind: s.kind}
	note := func(err error) {
		if len(failed.Causes) < maxCauses {
			failed.Causes = append(failed.Causes, Cause{s.now(), err})
		}
	}
	missing := make([]int, len(s.signers))
	for i := range s.signers {
		missing[i] = i
	}

	var good []T
	signatures, tried := 0, 0
	for signature, err := range found {
		if tried++; tried > maxTriedSignatures {
			break
		}
		if err != nil {
			note(err)
			continue
		}

		signatures++
		before := len(missing)
		missing = slices.DeleteFunc(missing, func(signer int) bool {
			err := s.verify(signature, signer)
			if err != nil {
				note(fmt.Errorf("a signature is not valid for %s: %w", s.signers[signer], err))
			}
			return err == nil
		})
		if len(missing) < before {
			good = append(good, signature)
		}
		if len(missing) == 0 {
			break
		}
	}

	if len(missing) == 0 && len(s.signers) > 0 {
		return good, nil
	}

	if err := context.Cause(ctx); err != nil {
		note(fmt.Errorf("the search for signatures in %s was canceled: %w", s.store, err))
	} else if signatures == 0 {
		note(fmt.Errorf("no signature was found in %s", s.store))
	}

	for _, signer := range missing {
		failed.Missing = append(failed.Missing, s.signers[signer])
	}

	return nil, failed
}
