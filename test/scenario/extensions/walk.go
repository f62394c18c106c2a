package main

import (
	"context"
	"strings"
	"time"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// updateThroughVersions installs the first version and updates from one version to the next,
// along the edges of the catalog if there are any. If an update is refused, it records the reason
// and allows the update.
func (s *scenario) updateThroughVersions(ctx context.Context, name string, versions []string) {
	current := versions[0]
	rights, err := s.user.applyRights(ctx, name, "--version", current)
	if err == nil {
		_, err = s.Mainstay(ctx, rights.installArgs(name, current)...)
	}
	if err != nil {
		s.table.PrintLine(name, current, unexpected, 0, err.Error())
		return
	}
	if o, reason := s.user.waitForOutcome(ctx, name, current); o != installed {
		s.table.PrintLine(name, current, unexpected, 0, "it was installed before, and now: "+reason)
		return
	}

	for _, next := range versions[1:] {
		if ctx.Err() != nil {
			return
		}

		began := time.Now()
		o, reason := s.updateExtension(ctx, name, current, next, rights)
		s.table.PrintLine(name, current+" → "+next, o, time.Since(began), reason)
		if o == updated {
			current = next
		}
	}

	if err := s.user.uninstallWithRights(ctx, name, rights); err != nil {
		s.table.PrintLine(name, "removal of "+current, unexpected, 0, err.Error())
	}
}

// updateExtension updates an extension.
func (s *scenario) updateExtension(ctx context.Context, name, from, to string, r *installRights) (outcome, string) {
	more, err := s.user.applyRights(ctx, name, "--version", to, "--update-from", from)
	if err != nil {
		return unexpected, err.Error()
	}

	r.manifest = more.manifest
	want := func(edit func(*olmv1.ClusterExtensionSpec)) (outcome, string) {
		if err := s.observer.patchExtensionSpec(ctx, name, func(spec *olmv1.ClusterExtensionSpec) {
			spec.Source.Catalog.Version = to
			edit(spec)
		}); err != nil {
			return unexpected, err.Error()
		}
		return s.user.waitForOutcome(ctx, name, to)
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
			if err := s.observer.waitForArchivedRevisions(ctx, name); err != nil {
				return unexpected, err.Error()
			}
			return updated, strings.Join(notes, "; ")
		case o == unexpected:
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

	return unexpected, "it is refused though everything is allowed: " + strings.Join(notes, "; ")
}
