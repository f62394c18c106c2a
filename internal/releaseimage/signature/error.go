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

// Error says that a release is not signed as it must be.
type Error struct {
	// Digest of the release image.
	Digest string
	// Kind of what is missing a signature: "keyrings" or "keys".
	Kind string
	// Missing are the names of the keyrings or keys for which no valid signature was found.
	Missing []string
	// Causes are what was found instead, in the order in which it was found: at most 64.
	Causes []Cause
}

// Cause is something that kept a signature from being found or believed.
type Cause struct {
	// Time when it was found.
	Time time.Time
	Err  error
}

// Error names the digest and what is missing. Detail says why.
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

// Detail is the error with its causes, one in each line with its time.
func (e *Error) Detail() string {
	lines := []string{e.Error()}
	for _, cause := range e.Causes {
		lines = append(lines, fmt.Sprintf("  %s: %v", cause.Time.UTC().Format(time.RFC3339), cause.Err))
	}
	return strings.Join(lines, "\n")
}

// Detail tells all that is known of why a verifier refused: its errors with their causes.
// An error of another kind is given as it is.
func Detail(err error) string {
	own := (*Error)(nil)
	if joined := (refusals)(nil); errors.As(err, &joined) {
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

// refusals are the errors of several verifiers.
type refusals []error

func (r refusals) Error() string { return errors.Join(r...).Error() }

func (r refusals) Unwrap() []error { return r }

// maxCauses is how many causes are kept: those of a few stores with nine signatures each.
const maxCauses = 64

// maxTried is how many signatures are tried for one digest: those of dozens of stores. Each
// costs up to a millisecond.
const maxTried = 500

// search looks for signatures until every signer has one.
type search[T any] struct {
	digest Digest
	kind   string
	store  string
	now    func() time.Time
	// signers are the names of those who must have signed.
	signers []string
	// accepts reports whether a signature is a signer's.
	accepts func(signature T, signer int) error
}

// run returns the signatures that satisfied the signers, or an *Error.
func (s search[T]) run(ctx context.Context, found iter.Seq2[T, error]) ([]T, error) {
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
		if tried++; tried > maxTried {
			break
		}
		if err != nil {
			note(err)
			continue
		}

		signatures++
		before := len(missing)
		missing = slices.DeleteFunc(missing, func(signer int) bool {
			err := s.accepts(signature, signer)
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
		note(fmt.Errorf("looking for signatures in %s was given up: %w", s.store, err))
	} else if signatures == 0 {
		note(fmt.Errorf("no signature was found in %s", s.store))
	}

	for _, signer := range missing {
		failed.Missing = append(failed.Missing, s.signers[signer])
	}

	return nil, failed
}
