package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// plurals are the reasons that several ClusterOperators can have together, with what is said
// of all of them.
var plurals = map[string]struct{ reason, text string }{
	ReasonOperatorNoVersions:   {"ClusterOperatorsNoVersions", "do not declare expected versions"},
	ReasonOperatorNotAvailable: {"ClusterOperatorsNotAvailable", "are not available"},
	ReasonOperatorDegraded:     {"ClusterOperatorsDegraded", "are degraded"},
	ReasonOperatorUpdating:     {"ClusterOperatorsUpdating", "are updating versions"},
}

// summarize makes one error of those of a pass; nil of none. That work was ended counts
// only when nothing else failed. ClusterOperators with the same trouble are told together.
func summarize(all []error) error {
	errs := slices.DeleteFunc(slices.Clone(all), isEnd)
	if len(errs) == 0 {
		errs = all
	}

	var members []*Error
	for _, err := range errs {
		members = append(members, asError(err))
	}

	// One order for the same errors, whoever was first.
	slices.SortStableFunc(members, func(a, b *Error) int {
		if a.Number != b.Number {
			return a.Number - b.Number
		}
		return strings.Compare(a.Message, b.Message)
	})

	members = condense(members)
	switch len(members) {
	case 0:
		return nil
	case 1:
		return members[0]
	}

	return multiple(members)
}

// isEnd reports whether an error only says that work was ended.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func asError(err error) *Error {
	if found := (*Error)(nil); errors.As(err, &found) {
		return found
	}
	return &Error{Reason: ReasonFailed, Effect: EffectFail, Message: err.Error(), Err: err}
}

// condense makes one error of those of several ClusterOperators with the same reason, at
// the place of the first.
func condense(members []*Error) []*Error {
	byReason := map[string][]*Error{}
	for _, m := range members {
		byReason[m.Reason] = append(byReason[m.Reason], m)
	}

	var result []*Error
	for _, m := range members {
		same, plural := byReason[m.Reason], plurals[m.Reason]
		switch {
		case plural.reason == "" || len(same) == 1:
			result = append(result, m)
		case m == same[0]:
			result = append(result, together(same, plural.reason, plural.text))
		}
	}

	return result
}

func together(same []*Error, reason, text string) *Error {
	result := &Error{Reason: reason, Effect: strongest(same)}
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

func multiple(members []*Error) *Error {
	var lines []string
	var causes []error
	for _, m := range members {
		lines = append(lines, "* "+m.Message)
		causes = append(causes, m)
	}

	slices.Sort(lines)
	return &Error{
		Reason: ReasonMultiple, Effect: strongest(members),
		Message: "Multiple errors are preventing progress:\n" + strings.Join(slices.Compact(lines), "\n"),
		Err:     errors.Join(causes...),
	}
}

func strongest(members []*Error) Effect {
	result := EffectReport
	for _, m := range members {
		result = max(result, m.Effect)
	}
	return result
}
