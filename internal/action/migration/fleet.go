package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
)

// State is the state of an operator with regard to its migration.
type State string

// States of operators, in the order of their output.
const (
	// StateConflict means that a Subscription and an extension exist for one operator.
	StateConflict State = "Conflict"
	// StateIneligible means that findings prevent the migration.
	StateIneligible State = "Ineligible"
	// StateAlreadyMigrated means that the extension exists and the Subscription does not.
	StateAlreadyMigrated State = "AlreadyMigrated"
	// StateInProgress means that a migration or a rollback was interrupted.
	StateInProgress State = "InProgress"
	// StateEligible means that nothing prevents the migration.
	StateEligible State = "Eligible"
)

var stateOrder = []State{StateConflict, StateIneligible, StateAlreadyMigrated, StateInProgress, StateEligible}

// Member is an operator of a fleet.
type Member struct {
	// Subscription is the Subscription, as namespace/name.
	Subscription string `json:"subscription"`
	State        State  `json:"state"`
	// Detail is the most important finding, or the version of the extension.
	Detail string `json:"detail,omitempty"`
	// Plan is the plan. It is nil unless the operator was checked.
	Plan *plan.Plan `json:"plan,omitempty"`
	// Migrated reports whether the operator was migrated by this run.
	Migrated bool `json:"migrated,omitempty"`
	// Error is why the migration failed.
	Error string `json:"error,omitempty"`

	key client.ObjectKey
}

// Fleet migrates all operators that can be migrated, one after the other.
type Fleet struct {
	// Migrate has the options of each migration. Its name is ignored. Its namespace limits the
	// operators; empty means all namespaces.
	Migrate Migrate
	// DryRun lists the operators, and migrates none.
	DryRun bool
}

// Run returns the operators sorted by state. It migrates the eligible ones and those in progress,
// unless it is a dry run. A failed migration does not stop the others. The error is not nil if the
// operators cannot be listed, or if a migration failed.
func (f *Fleet) Run(ctx context.Context) ([]Member, error) {
	members, err := f.listMembers(ctx)
	if err != nil || f.DryRun {
		return members, err
	}

	failed := 0
	for i := range members {
		member := &members[i]
		if member.State != StateEligible && member.State != StateInProgress || ctx.Err() != nil {
			continue
		}

		m := f.Migrate
		m.Namespace, m.Name = member.key.Namespace, member.key.Name
		if err := m.Run(ctx); err != nil {
			member.Error = err.Error()
			failed++
			continue
		}
		member.Migrated = true
	}

	if failed > 0 {
		return members, fmt.Errorf("%d of the migrations failed", failed)
	}
	return members, ctx.Err()
}

func (f *Fleet) listMembers(ctx context.Context) ([]Member, error) {
	var subscriptions v1alpha1.SubscriptionList
	var extensions olmv1.ClusterExtensionList
	var snapshots corev1.SecretList
	in := client.InNamespace(f.Migrate.Namespace)
	err := errors.Join(f.Migrate.Client.List(ctx, &subscriptions, in), f.Migrate.Client.List(ctx, &extensions),
		f.Migrate.Client.List(ctx, &snapshots, in, client.MatchingLabels{LabelSnapshot: "true"}))
	if err != nil {
		return nil, newServerError("fleet", err)
	}

	begun := map[client.ObjectKey]bool{}
	for _, secret := range snapshots.Items {
		begun[client.ObjectKey{Namespace: secret.Namespace, Name: strings.TrimPrefix(secret.Name, snapshotPrefix)}] = true
	}

	var members []Member
	seen := map[client.ObjectKey]bool{}
	for i := range subscriptions.Items {
		key := client.ObjectKeyFromObject(&subscriptions.Items[i])
		seen[key] = true
		member := Member{key: key, State: StateInProgress}
		if !begun[key] {
			if member, err = f.checkMember(ctx, key); err != nil {
				return nil, err
			}
		}
		members = append(members, member)
	}

	for key := range begun {
		if !seen[key] {
			seen[key] = true
			member, err := f.describeBegun(ctx, key)
			if err != nil {
				return nil, err
			}
			members = append(members, member)
		}
	}

	for i := range extensions.Items {
		ext := &extensions.Items[i]
		namespace, name, ok := strings.Cut(ext.Annotations[plan.AnnotationMigratedFrom], "/")
		key := client.ObjectKey{Namespace: namespace, Name: name}
		if ok && !seen[key] && (f.Migrate.Namespace == "" || f.Migrate.Namespace == namespace) {
			members = append(members, Member{key: key, State: StateAlreadyMigrated, Detail: "clusterextension " + ext.Name + ", confirmed"})
		}
	}

	return sortMembers(members), nil
}

func sortMembers(members []Member) []Member {
	for i := range members {
		members[i].Subscription = members[i].key.String()
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(slices.Index(stateOrder, a.State)-slices.Index(stateOrder, b.State), cmp.Compare(a.Subscription, b.Subscription))
	})
	return members
}

// describeBegun returns the member for a migration whose Subscription is deleted: complete and not
// confirmed yet, or interrupted.
func (f *Fleet) describeBegun(ctx context.Context, key client.ObjectKey) (Member, error) {
	s, err := loadSnapshot(ctx, f.Migrate.Client, key)
	if err != nil || s == nil {
		return Member{key: key, State: StateInProgress}, err
	}
	missing, err := f.Migrate.findMissingStep(ctx, s)
	switch {
	case err != nil:
		return Member{}, newServerError("subscription "+key.String(), err)
	case missing != "":
		return Member{key: key, State: StateInProgress, Detail: missing}, nil
	default:
		return Member{key: key, State: StateAlreadyMigrated, Detail: "clusterextension " + s.Extension.Name + ", to be confirmed"}, nil
	}
}

// checkMember checks one Subscription.
func (f *Fleet) checkMember(ctx context.Context, key client.ObjectKey) (Member, error) {
	m := f.Migrate
	m.Namespace, m.Name = key.Namespace, key.Name
	p, err := m.Check(ctx)
	if err != nil {
		return Member{}, err
	}

	member := Member{key: key, State: StateEligible, Plan: p}
	for _, finding := range p.Findings {
		if !finding.Blocks() {
			continue
		}
		if member.State == StateEligible || finding.Check == "Conflict" && member.State != StateConflict {
			member.State, member.Detail = StateIneligible, finding.Object+": "+finding.Message
		}
		if finding.Check == "Conflict" {
			member.State = StateConflict
		}
	}
	return member, nil
}
