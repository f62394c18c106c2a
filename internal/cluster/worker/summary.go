package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// operatorPlurals are the reasons that several ClusterOperators can share, with the reason and
// text for all of them.
var operatorPlurals = map[string]struct{ reason, text string }{
	ReasonOperatorNoVersions:   {"ClusterOperatorsNoVersions", "do not declare expected versions"},
	ReasonOperatorNotAvailable: {"ClusterOperatorsNotAvailable", "are not available"},
	ReasonOperatorDegraded:     {"ClusterOperatorsDegraded", "are degraded"},
	ReasonOperatorUpdating:     {"ClusterOperatorsUpdating", "are updating versions"},
}

// summarizePassErrors combines the errors of a pass into one; nil if there are none. Context
// errors count only if nothing else failed. ClusterOperators with the same reason are combined
// into one error.
func summarizePassErrors(all []error) error {
	errs := slices.DeleteFunc(slices.Clone(all), isContextError)
	if len(errs) == 0 {
		errs = all
	}

	var members []*Error
	for _, err := range errs {
		members = append(members, toWorkerError(err))
	}

	// The order does not depend on which error occurred first.
	slices.SortStableFunc(members, func(a, b *Error) int {
		if a.Number != b.Number {
			return a.Number - b.Number
		}
		return strings.Compare(a.Message, b.Message)
	})

	members = groupOperatorErrors(members)
	switch len(members) {
	case 0:
		return nil
	case 1:
		return members[0]
	}

	return newMultipleError(members)
}

// isContextError reports whether an error only states that the context ended.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func toWorkerError(err error) *Error {
	if found := (*Error)(nil); errors.As(err, &found) {
		return found
	}
	return &Error{Reason: ReasonFailed, Effect: EffectFail, Message: err.Error(), Err: err}
}

// groupOperatorErrors combines the errors of several ClusterOperators with the same reason into
// one, at the position of the first.
func groupOperatorErrors(members []*Error) []*Error {
	byReason := map[string][]*Error{}
	for _, m := range members {
		byReason[m.Reason] = append(byReason[m.Reason], m)
	}

	var result []*Error
	for _, m := range members {
		same, plural := byReason[m.Reason], operatorPlurals[m.Reason]
		switch {
		case plural.reason == "" || len(same) == 1:
			result = append(result, m)
		case m == same[0]:
			result = append(result, mergeOperatorErrors(same, plural.reason, plural.text))
		}
	}

	return result
}

func mergeOperatorErrors(same []*Error, reason, text string) *Error {
	result := &Error{Reason: reason, Effect: strongestEffect(same)}
	var causes []error
	for _, m := range same {
		result.Names = append(result.Names, m.Names...)
		causes = append(causes, m)
	}

	slices.Sort(result.Names)
	result.Names = slices.Compact(result.Names)
	result.Message = fmt.Sprintf("Cluster operators %s %s", strings.Join(result.Names, ", "), text)
	result.Err = errors.Join(causes...)

	return result
}

func newMultipleError(members []*Error) *Error {
	var lines []string
	var causes []error
	for _, m := range members {
		lines = append(lines, "* "+m.Message)
		causes = append(causes, m)
	}

	slices.Sort(lines)
	return &Error{
		Reason: ReasonMultiple, Effect: strongestEffect(members),
		Message: "Multiple errors are preventing progress:\n" + strings.Join(slices.Compact(lines), "\n"),
		Err:     errors.Join(causes...),
	}
}

func strongestEffect(members []*Error) Effect {
	result := EffectReport
	for _, m := range members {
		result = max(result, m.Effect)
	}
	return result
}
