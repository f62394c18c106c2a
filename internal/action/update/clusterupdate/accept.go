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

// SplitNames splits a comma-separated list. It skips empty items.
func SplitNames(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(name string) bool { return name == "" })
}

// Accept changes which risks of conditional updates are accepted.
type Accept struct {
	// Client is the client of the cluster.
	Client client.Client
	// Risks are names of risks to accept. A name with the suffix "-" is removed.
	Risks []string
	// Replace removes all risks that are not named. Clear removes all risks.
	Replace, Clear bool
	// Generation is the generation of the ClusterVersion that the change is based on. Zero means any.
	Generation int64
}

// Validate checks the options that do not depend on the cluster.
func (a *Accept) Validate() error {
	switch {
	case a.Replace && a.Clear:
		return errors.New("--replace and --clear are mutually exclusive")
	case a.Clear && len(a.Risks) > 0:
		return errors.New("--clear takes no risks")
	case !a.Clear && len(a.Risks) == 0:
		return errors.New("name the risks to accept")
	}

	for _, name := range a.Risks {
		bare, minus := strings.CutSuffix(name, "-")
		switch {
		case bare == "":
			return fmt.Errorf("%q is not the name of a risk", name)
		case minus && a.Replace:
			return fmt.Errorf("--replace accepts only the named risks: leave out %s", name)
		case minus && slices.Contains(a.Risks, bare):
			return fmt.Errorf("%s is both accepted and removed", bare)
		}
	}

	return nil
}

// Run reads the ClusterVersion, decides, and writes the risks.
func (a *Accept) Run(ctx context.Context) (*Outcome, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}

	cv, err := readGeneration(ctx, a.Client, a.Generation)
	if err != nil {
		return nil, err
	}

	names, changed := a.mergeRisks(AcceptedRisks(cv))
	if !changed {
		return &Outcome{Message: "info: Accept risks are not changed"}, nil
	}

	update := &configv1.Update{}
	if requested := cv.Spec.DesiredUpdate; requested != nil {
		update = requested.DeepCopy()
	}

	update.AcceptRisks = nil
	for _, name := range names {
		update.AcceptRisks = append(update.AcceptRisks, configv1.AcceptRisk{Name: name})
	}

	if len(names) == 0 && !namesRelease(update) {
		update = nil // an update that names neither a release nor risks is not valid
	}

	outcome := &Outcome{Changed: true, Message: fmt.Sprintf("info: Accept risks are [%s]", strings.Join(names, ", "))}
	return outcome, patchSpec(ctx, a.Client, cv, desiredUpdatePatch(update))
}

// AcceptedRisks returns the sorted names of the accepted risks.
func AcceptedRisks(cv *configv1.ClusterVersion) []string {
	var names []string
	for _, risk := range acceptedRisks(cv) {
		names = append(names, risk.Name)
	}
	slices.Sort(names)
	return names
}

// mergeRisks returns the sorted names of the risks after the change, and whether they
// differ from before.
func (a *Accept) mergeRisks(before []string) (names []string, changed bool) {
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
