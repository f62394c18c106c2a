package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// walk installs the first version and goes from one to the next, along the edges of the
// catalog where there are some. What stops an update is noted, and then allowed.
func (s *scenario) walk(ctx context.Context, name string, versions []string) {
	current := versions[0]
	rights, err := s.prepare(ctx, name, "--version", current)
	if err == nil {
		_, err = s.Mainstay(ctx, s.install(name, current, rights)...)
	}
	if err != nil {
		s.table.line(name, current, surprise, 0, err.Error())
		return
	}
	if o, reason := s.settle(ctx, name, current); o != installed {
		s.table.line(name, current, surprise, 0, "it was installed before, and now: "+reason)
		return
	}

	for _, next := range versions[1:] {
		if ctx.Err() != nil {
			return
		}

		began := time.Now()
		o, reason := s.step(ctx, name, current, next, rights)
		s.table.line(name, current+" → "+next, o, time.Since(began), reason)
		if o == updated {
			current = next
		}
	}

	if err := s.uninstall(ctx, name, rights); err != nil {
		s.table.line(name, "removal of "+current, surprise, 0, err.Error())
	}
}

// step updates an extension.
func (s *scenario) step(ctx context.Context, name, from, to string, r *rights) (outcome, string) {
	more, err := s.prepare(ctx, name, "--version", to, "--update-from", from)
	if err != nil {
		return surprise, err.Error()
	}

	r.manifest = more.manifest
	want := func(edit func(*olmv1.ClusterExtensionSpec)) (outcome, string) {
		if err := s.change(ctx, name, func(spec *olmv1.ClusterExtensionSpec) {
			spec.Source.Catalog.Version = to
			edit(spec)
		}); err != nil {
			return surprise, err.Error()
		}
		return s.settle(ctx, name, to)
	}

	policy := olmv1.UpgradeConstraintPolicyCatalogProvided
	var install *olmv1.ClusterExtensionInstallConfig
	var notes []string
	for range 3 {
		o, reason := want(func(spec *olmv1.ClusterExtensionSpec) {
			spec.Source.Catalog.UpgradeConstraintPolicy, spec.Install = policy, install
		})
		switch {
		case o == installed:
			if err := s.archived(ctx, name); err != nil {
				return surprise, err.Error()
			}
			return updated, strings.Join(notes, "; ")
		case o == surprise:
			return o, reason
		case strings.Contains(reason, "no bundles found") && policy != olmv1.UpgradeConstraintPolicySelfCertified:
			policy = olmv1.UpgradeConstraintPolicySelfCertified
			notes = append(notes, "without an edge of the catalog")
		case strings.Contains(reason, "upgrade safety validation") && install == nil:
			install = &olmv1.ClusterExtensionInstallConfig{Preflight: &olmv1.PreflightConfig{
				CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: olmv1.CRDUpgradeSafetyEnforcementNone},
			}}
			notes = append(notes, "after it was refused: "+reason)
		default:
			return refused, reason
		}
	}

	return surprise, "it is refused though everything is allowed: " + strings.Join(notes, "; ")
}

// archived waits until the replaced revisions have let go of their objects.
func (s *scenario) archived(ctx context.Context, name string) error {
	return eventually(ctx, func(ctx context.Context) error {
		var sets olmv1.ClusterObjectSetList
		if err := s.observer.List(ctx, &sets, client.MatchingLabels{olmv1.LabelOwnerName: name}); err != nil {
			return err
		}

		active := 0
		for i := range sets.Items {
			set := &sets.Items[i]
			progressing := find(set.Status.Conditions, olmv1.TypeProgressing)
			switch {
			case set.Spec.LifecycleState != olmv1.LifecycleStateArchived:
				active++
			case progressing.Reason != olmv1.ReasonArchived:
				return fmt.Errorf("the replaced revision %s is not removed: %s", set.Name, progressing.Message)
			}
		}

		if active != 1 {
			return errors.New("more than one revision is active")
		}

		return nil
	})
}
