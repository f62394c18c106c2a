package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/docker/distribution/registry/api/errcode"
	"go.podman.io/image/v5/docker"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// Kind says how to react to an error.
type Kind int

const (
	// KindUnavailable means that the network, the registry or the local disk failed. A retry may
	// help. It is the kind of all errors that are not classified otherwise.
	KindUnavailable Kind = iota
	// KindNotFound means that the registry has no such repository, tag or digest. It may be pushed
	// later, so a slow retry may help.
	KindNotFound
	// KindDenied means that the registry refused the credentials, or registries.conf blocks the
	// registry. An administrator must act, but not on the object that names the image. A slow retry
	// notices the fix.
	KindDenied
	// KindUntrusted means that the signature policy does not accept the image, or cannot be read.
	// As with KindDenied, the fix is made elsewhere.
	KindUntrusted
	// KindContent means that the image itself is invalid, broken or over a limit. A retry with the
	// same digest cannot help.
	KindContent
	// KindInvalid means that the reference or another argument is invalid. A retry cannot help.
	KindInvalid
)

// String returns the name of the kind, as used in metrics and logs.
func (k Kind) String() string {
	switch k {
	case KindNotFound:
		return "NotFound"
	case KindDenied:
		return "Denied"
	case KindUntrusted:
		return "Untrusted"
	case KindContent:
		return "Content"
	case KindInvalid:
		return "Invalid"
	default:
		return "Unavailable"
	}
}

// Error is the error of every operation of this package. Its message names the image, what
// failed and what to do. It contains no credentials and no query of a URL.
type Error struct {
	// Kind says what should happen next.
	Kind Kind
	// Op is the operation that failed: "resolve", "inspect", "list the tags of", "pull",
	// "extract", "copy", "push", "write", "open", "build", "cache" or "read credentials".
	Op string
	// Ref is the image reference as the caller wrote it. It is empty when no image is
	// involved.
	Ref string

	text string
	err  error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Ref == "" {
		return e.Op + ": " + e.text
	}
	return e.Op + " image " + e.Ref + ": " + e.text
}

// Unwrap returns the cause, for errors.Is and errors.As. The text of the cause may contain
// secrets.
func (e *Error) Unwrap() error { return e.err }

// Terminal reports whether a retry with the same reference cannot help, because the content
// or the reference is invalid. Content that does not have its digest or size is not terminal: it
// can be the response of a proxy.
func (e *Error) Terminal() bool {
	return (e.Kind == KindContent || e.Kind == KindInvalid) && !errors.Is(e.err, ErrDigestMismatch)
}

// IsTerminal reports whether err is an [*Error] for which a retry cannot help.
func IsTerminal(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Terminal()
}

// kindError is a cause with the kind that is known where it occurs.
type kindError struct {
	kind Kind
	err  error
}

func (f *kindError) Error() string { return f.err.Error() }
func (f *kindError) Unwrap() error { return f.err }

// kindErrorf returns a formatted error of a kind.
func kindErrorf(kind Kind, format string, args ...any) error {
	return &kindError{kind: kind, err: fmt.Errorf(format, args...)}
}

// ErrDigestMismatch is wrapped by errors about content that does not have the requested digest.
// The content was changed in transit or in storage.
var ErrDigestMismatch = errors.New("the content does not have its digest")

// digestMismatchf returns a formatted error that wraps [ErrDigestMismatch].
func digestMismatchf(kind Kind, format string, args ...any) error {
	return &kindError{kind: kind, err: digestMismatch{fmt.Errorf(format, args...)}}
}

type digestMismatch struct{ error }

func (digestMismatch) Is(target error) bool { return target == ErrDigestMismatch }

// contentErrorf returns a formatted error of KindContent.
func contentErrorf(format string, args ...any) error { return kindErrorf(KindContent, format, args...) }

func isContentError(err error) bool {
	var f *kindError
	return errors.As(err, &f) && f.kind == KindContent
}

// wrapOperationError returns err as an [*Error] of an operation, with secrets redacted from
// its message. It returns nil for nil, and err itself when it wraps an [*Error] already.
func wrapOperationError(op, ref string, err error, secrets ...string) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}

	kind := kindOfError(err)
	text := redactText(err.Error(), secrets)
	if hint := hintForError(kind, err); hint != "" {
		text += "; " + hint
	}

	return &Error{Kind: kind, Op: op, Ref: redactReference(ref), text: text, err: err}
}

// statusCodePattern matches the HTTP status in errors of go.podman.io/image that carry it
// only as text. They occur when the response body is not the JSON of the specification.
var statusCodePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`StatusCode: (\d{3})\b`) })

func kindOfError(err error) Kind {
	var f *kindError
	if errors.As(err, &f) {
		return f.kind
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return KindUnavailable
	}

	var answer *registry.StatusError
	var login *registry.LoginError
	var tooLarge *registry.TooLargeError
	switch {
	case errors.As(err, &answer):
		return kindOfStatus(answer.Status)
	case errors.As(err, &login):
		return KindDenied
	case errors.As(err, &tooLarge):
		return KindContent
	}

	return kindOfLibraryError(err)
}

// kindOfLibraryError classifies errors of the library that reads signatures.
func kindOfLibraryError(err error) Kind {
	var unauthorized docker.ErrUnauthorizedForCredentials
	if errors.As(err, &unauthorized) {
		return KindDenied
	}

	var status docker.UnexpectedHTTPStatusError
	if errors.As(err, &status) {
		return kindOfStatus(status.StatusCode)
	}

	var coder errcode.ErrorCoder
	if errors.As(err, &coder) {
		return kindOfStatus(coder.ErrorCode().Descriptor().HTTPStatusCode)
	}

	if m := statusCodePattern().FindStringSubmatch(err.Error()); m != nil {
		if code, convErr := strconv.Atoi(m[1]); convErr == nil {
			return kindOfStatus(code)
		}
	}

	return KindUnavailable
}

func kindOfStatus(code int) Kind {
	switch code {
	case http.StatusNotFound:
		return KindNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return KindDenied
	default:
		return KindUnavailable
	}
}

// hintForError returns advice on how to fix an error, or an empty string.
func hintForError(kind Kind, err error) string {
	var own *kindError
	var unverified *tls.CertificateVerificationError
	var unknownCA x509.UnknownAuthorityError
	switch {
	case errors.As(err, &own):
		return "" // its text has the advice
	case errors.As(err, &unverified), errors.As(err, &unknownCA):
		return "add the registry's certificate authority to the trusted ones"
	case kind == KindNotFound:
		return "check the name and the tag, and that the image was pushed"
	case kind == KindDenied:
		return "check the pull secret and that the repository exists"
	default:
		return ""
	}
}

var (
	urlPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.\-]*://[^\s"'<>\\]+`) })
	// tokenAnswerPattern matches the quoted response in an error about a token.
	tokenAnswerPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`body start "(?:[^"\\]|\\.)*"`) })
)

// maxMessageBytes bounds the text of an error. The text ends up in a condition of at most
// 32 KiB together with others, and a registry may answer with a page of HTML.
const maxMessageBytes = 2048

// redactText returns a text that is safe to show, as one line of bounded length. URLs lose
// user, password, query and fragment, because signed links of a registry's storage carry
// their signature there. Quoted token responses and the given secrets are removed.
func redactText(text string, secrets []string) string {
	text = tokenAnswerPattern().ReplaceAllString(text, `body start "<redacted>"`)
	text = urlPattern().ReplaceAllStringFunc(text, redactURL)
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "<redacted>")
	}

	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return excerpt.Start(text, maxMessageBytes)
}

// redactURL returns a URL without user, password, query and fragment.
func redactURL(text string) string {
	// A colon or comma after a URL belongs to the sentence.
	trimmed := strings.TrimRight(text, ":,;.)")
	u, err := url.Parse(trimmed)
	if err != nil {
		return "<redacted URL>"
	}

	u.User, u.RawQuery, u.Fragment, u.ForceQuery = nil, "", "", false
	return u.String() + text[len(trimmed):]
}

var digestSuffixPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9+._-]+:[0-9a-fA-F]+$`) })

// redactReference returns a reference that is safe to show. A user may have written a URL
// with credentials instead of a reference.
func redactReference(ref string) string {
	ref = redactText(ref, nil)
	if i := strings.LastIndex(ref, "@"); i >= 0 && !digestSuffixPattern().MatchString(ref[i+1:]) {
		ref = "<redacted>" + ref[i:]
	}
	return ref
}
