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

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// Kind says what should happen after an error.
type Kind int

const (
	// KindUnavailable: the network, the registry or the local disk failed. Trying again
	// may help. It is the kind of everything that is not known to be another.
	KindUnavailable Kind = iota
	// KindNotFound: the registry knows no such repository, tag or digest. It may be
	// pushed later, so trying again (slowly) may help.
	KindNotFound
	// KindDenied: the registry refused the credentials, or registries.conf blocks the
	// registry. A person must act, but not on the object that names the image, so trying
	// again (slowly) is how the fix is noticed.
	KindDenied
	// KindUntrusted: the signature policy does not accept the image, or cannot be read.
	// Like KindDenied, the fix is made elsewhere.
	KindUntrusted
	// KindContent: the image itself is bad, broken or over a limit. The same digest
	// stays bad: only another image helps.
	KindContent
	// KindInvalid: the reference or another argument is wrong. Only another one helps.
	KindInvalid
)

// String returns the name of the kind, as it is used in metrics and logs.
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

// Error is the error of every operation of this package. Its message names the image,
// what failed and what to do, and holds no credentials and no query of a URL.
type Error struct {
	// Kind says what should happen next.
	Kind Kind
	// Op is what failed: "resolve", "inspect", "list the tags of", "pull", "extract", "copy", "push", "write", "open",
	// "build", "cache" or "read credentials".
	Op string
	// Ref is the image, as the caller wrote it. Empty when no image is involved.
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

// Unwrap returns the cause, for errors.Is and errors.As. Its text is not safe to show.
func (e *Error) Unwrap() error { return e.err }

// Terminal reports whether trying the same reference again cannot help: the content or the
// reference is bad.
func (e *Error) Terminal() bool { return e.Kind == KindContent || e.Kind == KindInvalid }

// IsTerminal reports whether err is an [*Error] for which trying again cannot help.
func IsTerminal(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Terminal()
}

// fault is a cause whose kind is known where it happens.
type fault struct {
	kind Kind
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultf(kind Kind, format string, args ...any) error {
	return &fault{kind: kind, err: fmt.Errorf(format, args...)}
}

// ErrChanged is in errors about content that does not have the digest by which it was asked
// for: it was changed on the way, or where it is kept.
var ErrChanged = errors.New("the content does not have its digest")

// changedf reports content that does not have its digest.
func changedf(kind Kind, format string, args ...any) error {
	return &fault{kind: kind, err: changed{fmt.Errorf(format, args...)}}
}

type changed struct{ error }

func (changed) Is(target error) bool { return target == ErrChanged }

// badContent reports content that only another image can mend.
func badContent(format string, args ...any) error { return faultf(KindContent, format, args...) }

func isBadContent(err error) bool {
	var f *fault
	return errors.As(err, &f) && f.kind == KindContent
}

// fail makes the error of an operation. The secrets are struck from its message.
func fail(op, ref string, err error, secrets ...string) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}

	kind := kindOf(err)
	text := scrub(err.Error(), secrets)
	if hint := advice(kind, err); hint != "" {
		text += "; " + hint
	}

	return &Error{Kind: kind, Op: op, Ref: displayRef(ref), text: text, err: err}
}

// statusInText finds the HTTP status in an error of go.podman.io/image that carries it in
// no other way: the answer's body was not the JSON that a registry should send.
var statusInText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`StatusCode: (\d{3})\b`) })

func kindOf(err error) Kind {
	var f *fault
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

	return kindOfLibrary(err)
}

// kindOfLibrary knows the errors of what reads signatures.
func kindOfLibrary(err error) Kind {
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

	if m := statusInText().FindStringSubmatch(err.Error()); m != nil {
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

// advice says what a person can do about an error.
func advice(kind Kind, err error) string {
	var own *fault
	var unverified *tls.CertificateVerificationError
	var unknownCA x509.UnknownAuthorityError
	switch {
	case errors.As(err, &own):
		return "" // says it itself
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
	urlInText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.\-]*://[^\s"'<>\\]+`) })
	// bodyInText is the part of an error about a token that quotes the token's answer.
	bodyInText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`body start "(?:[^"\\]|\\.)*"`) })
)

// maxMessage bounds an error's text, which ends up in a condition of at most 32 KiB
// together with others. A registry may answer with a page of HTML.
const maxMessage = 2048

// scrub makes a text safe to show: URLs lose user, password, query and fragment (signed
// links of a registry's storage carry their signature there), quoted token answers and
// the given secrets go, and it becomes one line of bounded length.
func scrub(text string, secrets []string) string {
	text = bodyInText().ReplaceAllString(text, `body start "<redacted>"`)
	text = urlInText().ReplaceAllStringFunc(text, scrubURL)
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "<redacted>")
	}

	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}

	return text
}

func scrubURL(text string) string {
	// A colon or comma after a URL belongs to the sentence.
	trimmed := strings.TrimRight(text, ":,;.)")
	u, err := url.Parse(trimmed)
	if err != nil {
		return "<redacted URL>"
	}

	u.User, u.RawQuery, u.Fragment, u.ForceQuery = nil, "", "", false
	return u.String() + text[len(trimmed):]
}

var digestSuffix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9+._-]+:[0-9a-fA-F]+$`) })

// displayRef makes a reference safe to show: a person may have written a URL with
// credentials where a reference is expected.
func displayRef(ref string) string {
	ref = scrub(ref, nil)
	if i := strings.LastIndex(ref, "@"); i >= 0 && !digestSuffix().MatchString(ref[i+1:]) {
		ref = "<redacted>" + ref[i:]
	}
	return ref
}
