package console

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Problem is an error of the API (RFC 9457) with advice.
type Problem struct {
	// Title is the text of the status.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail states what went wrong.
	Detail string `json:"detail"`
	// Advice states what to do.
	Advice string `json:"advice,omitempty"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

func newProblem(status int, detail, advice string) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Advice: advice}
}

// toProblem returns the problem for an error of an operation.
func toProblem(err error) error {
	if err == nil {
		return nil
	}

	var problem *Problem
	if errors.As(err, &problem) {
		return problem
	}

	advice := asSentence(report.AdviceOf(err))
	status := http.StatusInternalServerError
	var api apierrors.APIStatus
	var network net.Error
	switch {
	case errors.As(err, &api) && api.Status().Code >= http.StatusBadRequest:
		status = int(api.Status().Code)
	case errors.Is(err, context.DeadlineExceeded), utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), errors.As(err, &network):
		status = http.StatusServiceUnavailable
		if advice == "" {
			advice = "The API server does not answer. The page tries again by itself."
		}
	case advice != "":
		status = http.StatusUnprocessableEntity
	}

	if status == http.StatusUnauthorized {
		return newProblem(status, "The API server no longer accepts your credentials.", "Sign in again.")
	}
	return newProblem(status, asSentence(err.Error()), advice)
}

// asSentence returns a text with a capital letter and a full stop. A kind at its beginning, which the command line writes in
// lower case, gets its name.
func asSentence(text string) string {
	word, _, _ := strings.Cut(text, " ")
	for _, kind := range watchedKinds {
		if word == strings.ToLower(kind.Kind) {
			text = kind.Kind + text[len(word):]
		}
	}

	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return text
	}
	last, _ := utf8.DecodeLastRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if unicode.IsPunct(last) && last != ')' && last != '"' && last != '\'' {
		return text
	}
	return text + "."
}

// writeProblem writes a problem outside of an operation.
func writeProblem(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has disconnected
}
