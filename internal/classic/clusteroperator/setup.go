package clusteroperator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

// These are the rights of olm-operator. Those of catalog-operator, for the ClusterOperator of its own, stand with it.
//
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,resourceNames=operator-lifecycle-manager;operator-lifecycle-manager-packageserver,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators/status,resourceNames=operator-lifecycle-manager;operator-lifecycle-manager-packageserver,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch

// Options are what a reporter is set up with. Its program needs the rights to create
// ClusterOperators, to get, list and watch the one of its name, and to patch its status.
type Options struct {
	// Name of the ClusterOperator. Empty means that none is written.
	Name string
	// Namespace is where the program runs.
	Namespace string
	// Release is the version of the platform that the program belongs to. Empty means that it
	// belongs to none: then its own version is reported, and it is not known what the next
	// version of the platform is.
	Release string
	// Program is the version of the program.
	Program string
	// Syncs is what the reconcilers of the program count by. Required but for the package server.
	Syncs *Syncs
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

func (o *Options) version() string { return cmp.Or(o.Release, o.Program) }

func (o *Options) now() metav1.Time { return metav1.NewTime(o.Clock.Now()) }

func (o *Options) complete() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

type reporting func(ctx context.Context, last *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error)

// SetupOLM adds the reporter of olm-operator to a manager: how its passes end, and whether the
// ClusterServiceVersions of the cluster let it be updated to its next minor version.
func SetupOLM(mgr manager.Manager, o Options) error {
	if o.Name == "" {
		return nil
	}

	o.complete()
	csvs, err := newCSVs(mgr)
	if err != nil {
		return fmt.Errorf("setting up the reporter of ClusterOperator %q: %w", o.Name, err)
	}

	// A component is up as soon as one pass succeeded.
	of := &judgement{rule: rule{passes: 1, successes: 1}, syncs: o.Syncs, clock: o.Clock}
	r := &operatorstatus.Reporter{Name: o.Name, Report: o.reportOLM(of, csvs)}
	return r.Setup(mgr, source.Channel(o.Syncs.news(), r.Wake()),
		source.Kind[client.Object](csvs, newMetadata(), r.Wake(), concerns(o.Namespace)))
}

func (o *Options) reportOLM(of *judgement, csvs client.Reader) reporting {
	return func(ctx context.Context, _ *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
		is, again := of.now()
		if is == unknown {
			return nil, again, nil
		}

		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind + "List"))
		// They are only read.
		if err := csvs.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, 0, fmt.Errorf("listing ClusterServiceVersions: %w", err)
		}

		said := report{name: o.Name, release: o.version(), program: o.Program, up: is == up, now: o.now()}
		said.related = append(o.related(), relatedTo(list.Items, o.Namespace)...)
		var statements []statement
		for i := range list.Items {
			if s := stated(&list.Items[i]); s != nil {
				statements = append(statements, *s)
			}
		}

		said.upgradeable = upgradeable(statements, o.Release)
		return said.fill, again, nil
	}
}

// SetupCatalog adds the reporter of catalog-operator to a manager.
func SetupCatalog(mgr manager.Manager, o Options) error {
	if o.Name == "" {
		return nil
	}

	o.complete()
	of := &judgement{rule: rule{passes: 10, successes: 5}, syncs: o.Syncs, clock: o.Clock}
	r := &operatorstatus.Reporter{Name: o.Name, Report: func(context.Context, *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
		is, again := of.now()
		if is == unknown {
			return nil, again, nil
		}

		said := report{name: o.Name, release: o.version(), program: o.Program, up: is == up, related: o.related(), now: o.now()}
		said.upgradeable = configv1.ClusterOperatorStatusCondition{
			Type: configv1.OperatorUpgradeable, Status: metav1.ConditionTrue, Reason: configv1.ReasonAsExpected, Message: messageNothingAgainst,
		}
		return said.fill, again, nil
	}}

	return r.Setup(mgr, source.Channel(o.Syncs.news(), r.Wake()))
}

// SetupPackageServer adds the reporter of what the ClusterServiceVersion installs that is labelled
// with the name of the ClusterOperator. The manager's cache must hold ClusterServiceVersions.
func SetupPackageServer(mgr manager.Manager, o Options) error {
	if o.Name == "" {
		return nil
	}

	o.complete()
	change := &change{}
	r := &operatorstatus.Reporter{Name: o.Name, Report: func(ctx context.Context, last *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
		var list v1alpha1.ClusterServiceVersionList
		if err := mgr.GetClient().List(ctx, &list, client.MatchingLabels{LabelName: o.Name}); err != nil {
			return nil, 0, fmt.Errorf("listing ClusterServiceVersions: %w", err)
		}

		own := slices.DeleteFunc(list.Items, func(csv v1alpha1.ClusterServiceVersion) bool { return csvinfo.IsCopied(&csv) })
		said := installed{csv: current(own), release: o.version(), now: o.now()}
		var again time.Duration
		said.isEarly, again = change.isEarly(said.csv, last, said.release, said.now.Time)

		return said.fill, again, nil
	}}

	is := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetLabels()[LabelName] == o.Name })

	return r.Setup(mgr, source.Kind[client.Object](mgr.GetCache(), &v1alpha1.ClusterServiceVersion{}, r.Wake(), is))
}

// related are the objects to look at when something is wrong with the component.
func (o *Options) related() []configv1.ObjectReference {
	return []configv1.ObjectReference{{Resource: "namespaces", Name: o.Namespace}}
}
