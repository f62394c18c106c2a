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

// These are the permissions of olm-operator. Those of catalog-operator are declared in its
// package.
//
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,resourceNames=operator-lifecycle-manager;operator-lifecycle-manager-packageserver,verbs=list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators/status,resourceNames=operator-lifecycle-manager;operator-lifecycle-manager-packageserver,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch

// Options configure a reporter. Its program needs permissions to create ClusterOperators, to
// get, list and watch the one with its name, and to patch its status.
type Options struct {
	// Name is the name of the ClusterOperator. If it is empty, nothing is reported.
	Name string
	// Namespace is the namespace of the program.
	Namespace string
	// Release is the version of the platform to which the program belongs. If it is empty, the
	// version of the program is reported, and the next version of the platform is not known.
	Release string
	// Program is the version of the program.
	Program string
	// Syncs has the results of the program's reconcilers. Required except for the package
	// server.
	Syncs *Syncs
	// Clock is the clock. If it is nil, the real time is used.
	Clock clock.PassiveClock
}

func (o *Options) reportedVersion() string { return cmp.Or(o.Release, o.Program) }

func (o *Options) currentTime() metav1.Time { return metav1.NewTime(o.Clock.Now()) }

func (o *Options) setDefaults() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

// SetupOLM adds the reporter of olm-operator to a manager. It reports the health of the
// component, and whether the CSVs of the cluster allow an update to the next minor version.
func SetupOLM(mgr manager.Manager, o Options) error {
	if o.Name == "" {
		return nil
	}

	o.setDefaults()
	csvs, err := newCSVCache(mgr)
	if err != nil {
		return fmt.Errorf("setting up the reporter of ClusterOperator %q: %w", o.Name, err)
	}

	// The component is up as soon as one sync succeeded.
	evaluator := &healthEvaluator{thresholds: syncThresholds{passes: 1, successes: 1}, syncs: o.Syncs, clock: o.Clock}
	r := &operatorstatus.Reporter{Name: o.Name, Report: o.newOLMReport(evaluator, csvs)}
	return r.Setup(mgr, source.Channel(o.Syncs.changeEvents(), r.EventHandler()),
		source.Kind[client.Object](csvs, newCSVMetadata(), r.EventHandler(), newReportPredicate(o.Namespace)))
}

func (o *Options) newOLMReport(evaluator *healthEvaluator, csvs client.Reader) operatorstatus.ReportFunc {
	return func(ctx context.Context, _ *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
		current, requeueAfter := evaluator.currentHealth()
		if current == healthUnknown {
			return nil, requeueAfter, nil
		}

		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind + "List"))
		// They are only read.
		if err := csvs.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, 0, fmt.Errorf("listing ClusterServiceVersions: %w", err)
		}

		component := componentReport{name: o.Name, release: o.reportedVersion(), program: o.Program, isUp: current == healthUp, now: o.currentTime()}
		component.relatedObjects = append(o.relatedNamespace(), newCSVReferences(list.Items, o.Namespace)...)
		var statements []versionLimit
		for i := range list.Items {
			if s := readVersionLimit(&list.Items[i]); s != nil {
				statements = append(statements, *s)
			}
		}

		component.upgradeable = newUpgradeableCondition(statements, o.Release)
		return component.applyToStatus, requeueAfter, nil
	}
}

// SetupCatalog adds the reporter of catalog-operator to a manager.
func SetupCatalog(mgr manager.Manager, o Options) error {
	if o.Name == "" {
		return nil
	}

	o.setDefaults()
	evaluator := &healthEvaluator{thresholds: syncThresholds{passes: 10, successes: 5}, syncs: o.Syncs, clock: o.Clock}
	r := &operatorstatus.Reporter{Name: o.Name, Report: func(context.Context, *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
		current, requeueAfter := evaluator.currentHealth()
		if current == healthUnknown {
			return nil, requeueAfter, nil
		}

		component := componentReport{name: o.Name, release: o.reportedVersion(), program: o.Program, isUp: current == healthUp, relatedObjects: o.relatedNamespace(), now: o.currentTime()}
		component.upgradeable = configv1.ClusterOperatorStatusCondition{
			Type: configv1.OperatorUpgradeable, Status: metav1.ConditionTrue, Reason: configv1.ReasonAsExpected, Message: messageNotBlocking,
		}
		return component.applyToStatus, requeueAfter, nil
	}}

	return r.Setup(mgr, source.Channel(o.Syncs.changeEvents(), r.EventHandler()))
}

// SetupPackageServer adds the reporter of the package server to a manager. It reports about the
// CSV that is labelled with the name of the ClusterOperator. The manager's cache must hold
// CSVs.
func SetupPackageServer(mgr manager.Manager, o Options) error {
	if o.Name == "" {
		return nil
	}

	o.setDefaults()
	change := &versionChange{}
	r := &operatorstatus.Reporter{Name: o.Name, Report: func(ctx context.Context, last *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
		var list v1alpha1.ClusterServiceVersionList
		if err := mgr.GetClient().List(ctx, &list, client.MatchingLabels{LabelName: o.Name}); err != nil {
			return nil, 0, fmt.Errorf("listing ClusterServiceVersions: %w", err)
		}

		csvs := slices.DeleteFunc(list.Items, func(csv v1alpha1.ClusterServiceVersion) bool { return csvinfo.IsCopied(&csv) })
		component := csvReport{csv: selectReportedCSV(csvs), release: o.reportedVersion(), now: o.currentTime()}
		var requeueAfter time.Duration
		component.isSuccessStale, requeueAfter = change.checkStaleSuccess(component.csv, last, component.release, component.now.Time)

		return component.applyToStatus, requeueAfter, nil
	}}

	hasLabel := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetLabels()[LabelName] == o.Name })

	return r.Setup(mgr, source.Kind[client.Object](mgr.GetCache(), &v1alpha1.ClusterServiceVersion{}, r.EventHandler(), hasLabel))
}

// relatedNamespace returns the namespace of the component as a related object.
func (o *Options) relatedNamespace() []configv1.ObjectReference {
	return []configv1.ObjectReference{{Resource: "namespaces", Name: o.Namespace}}
}
