package clusterupdate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// SplitNames returns the names in a list with commas. Empty items are none.
func SplitNames(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(name string) bool { return name == "" })
}

// Accept changes which risks of conditional updates the administrator accepts.
type Accept struct {
	// Client reaches the cluster.
	Client client.Client
	// Risks are names of risks to accept; one that ends in - is not accepted any more.
	Risks []string
	// Replace accepts no others, Clear none at all.
	Replace, Clear bool
}

// Validate finds faults that do not depend on the cluster.
func (a *Accept) Validate() error {
	switch {
	case a.Replace && a.Clear:
		return errors.New("--replace and --clear exclude each other")
	case a.Clear && len(a.Risks) > 0:
		return errors.New("--clear takes no risks")
	case !a.Clear && len(a.Risks) == 0:
		return errors.New("name the risks to accept")
	}

	for _, name := range a.Risks {
		bare, minus := strings.CutSuffix(name, "-")
		switch {
		case bare == "":
			return fmt.Errorf("%q is no name of a risk", name)
		case minus && a.Replace:
			return fmt.Errorf("--replace accepts what is named alone: leave out %s", name)
		case minus && slices.Contains(a.Risks, bare):
			return fmt.Errorf("%s is both accepted and taken back", bare)
		}
	}

	return nil
}

// Run reads the ClusterVersion, decides, and writes the risks.
func (a *Accept) Run(ctx context.Context) (*Outcome, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}

	cv, err := Read(ctx, a.Client)
	if err != nil {
		return nil, err
	}

	names, changed := a.decide(AcceptedRisks(cv))
	if !changed {
		return &Outcome{Message: "info: Accept risks are not changed"}, nil
	}

	update := &configv1.Update{}
	if asked := cv.Spec.DesiredUpdate; asked != nil {
		update = asked.DeepCopy()
	}

	update.AcceptRisks = nil
	for _, name := range names {
		update.AcceptRisks = append(update.AcceptRisks, configv1.AcceptRisk{Name: name})
	}

	if len(names) == 0 && !isTarget(update) {
		update = nil // an update that names neither a release nor risks is not valid
	}

	outcome := &Outcome{Changed: true, Message: fmt.Sprintf("info: Accept risks are [%s]", strings.Join(names, ", "))}
	return outcome, write(ctx, a.Client, cv, desired(update))
}

// AcceptedRisks are the names of the risks that are accepted, in order.
func AcceptedRisks(cv *configv1.ClusterVersion) []string {
	var names []string
	for _, risk := range risks(cv) {
		names = append(names, risk.Name)
	}
	slices.Sort(names)
	return names
}

// decide returns the names of the risks that are accepted then, in order, and whether they
// are others than before.
func (a *Accept) decide(before []string) (names []string, changed bool) {
	if !a.Clear && !a.Replace {
		names = slices.Clone(before)
	}

	for _, name := range a.Risks {
		if bare, minus := strings.CutSuffix(name, "-"); minus {
			names = slices.DeleteFunc(names, func(n string) bool { return n == bare })
		} else {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	names = slices.Compact(names)
	return names, !slices.Equal(names, before)
}
