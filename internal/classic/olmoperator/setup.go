// Package olmoperator assembles the component olm-operator: the controllers of ClusterServiceVersions
// (csv), OperatorGroups (group), copied CSVs (copied), OperatorConditions (condition) and Operators
// (operator), and the reporters of the ClusterOperators.
package olmoperator

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/condition"
	"github.com/mainstay-dev/mainstay/internal/classic/copied"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csv"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
	"github.com/mainstay-dev/mainstay/internal/classic/operator"
	"github.com/mainstay-dev/mainstay/internal/classic/takeover"
)

// Options configure the component.
type Options struct {
	// Namespace is the namespace of the program.
	Namespace string
	// Release is the version of the platform that includes the program; empty means none.
	Release string
	// Program is the version of this program.
	Program string
	// ClusterOperator is the name of its ClusterOperator; empty means that it does not report.
	ClusterOperator string
	// PackageServer is the name of the package server's ClusterOperator; empty means none. It reports the
	// state of the ClusterServiceVersion that is labelled with this name.
	PackageServer string
	// ProtectedNamespaces have copies of all operators even if an OLMConfig disables them.
	ProtectedNamespaces []string
	// Clock returns the current time. Nil means the system clock.
	Clock clock.PassiveClock
}

// ConfigureOptions sets the options of a manager's cache and client for the component. The cache has no copied CSVs, only the
// configuration of Subscriptions, and only those parts of operators that OLM created. Objects that are read
// rarely, or that must not be stale, are not cached. Tune does not change the namespaces of the cache.
func ConfigureOptions(o *ctrl.Options) {
	if o.Cache.ByObject == nil {
		o.Cache.ByObject = map[client.Object]cache.ByObject{}
	}

	noCopy, err := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.DoesNotExist, nil)
	if err == nil { // The label is valid.
		o.Cache.ByObject[&v1alpha1.ClusterServiceVersion{}] = cache.ByObject{Label: labels.NewSelector().Add(*noCopy)}
	}

	managed := labels.SelectorFromSet(labels.Set{csvinfo.LabelManaged: "true"})
	for _, kind := range csv.Managed() {
		o.Cache.ByObject[kind] = cache.ByObject{Label: managed}
	}

	// A transform by kind would request the kind from a cluster that may not serve it.
	strip := cache.TransformStripManagedFields()
	o.Cache.DefaultTransform = func(object any) (any, error) {
		light, err := csv.Transform(object)
		if err != nil {
			return nil, err
		}
		return strip(light)
	}
	if o.Client.Cache == nil {
		o.Client.Cache = &client.CacheOptions{}
	}

	o.Client.Cache.DisableFor = append(o.Client.Cache.DisableFor,
		&appsv1.Deployment{}, &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.Pod{}, &apiextensionsv1.CustomResourceDefinition{},
		&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{})
}

// Setup adds all controllers of the component to a manager whose options Tune has set.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	marked, err := group.NewCache(mgr)
	if err != nil {
		return err
	}

	crds, err := crdinfo.NewCache(mgr)
	if err != nil {
		return err
	}

	syncs := &clusteroperator.Syncs{}
	report := clusteroperator.Options{Namespace: o.Namespace, Release: o.Release, Program: o.Program, Syncs: syncs, Clock: o.Clock}
	olm, packages := report, report
	olm.Name, packages.Name = o.ClusterOperator, o.PackageServer

	return errors.Join(
		csv.Setup(mgr, csv.Options{Clock: o.Clock, Marked: marked, CRDs: crds, Syncs: syncs}),
		group.Setup(mgr, group.Options{Clock: o.Clock, Marked: marked, CRDs: crds}),
		copied.Setup(mgr, copied.Options{Clock: o.Clock, Marked: marked, ProtectedNamespaces: o.ProtectedNamespaces}),
		condition.Setup(mgr, condition.Options{}),
		operator.Setup(mgr, crds),
		mgr.Add(&takeover.Labeller{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()}),
		clusteroperator.SetupOLM(mgr, olm),
		clusteroperator.SetupPackageServer(mgr, packages),
	)
}

// RegisterMetrics registers the metrics of the component. A process must call it only once.
func RegisterMetrics(mgr ctrl.Manager) error {
	if err := metrics.Registry.Register(&csv.Metrics{Reader: mgr.GetClient()}); err != nil {
		return fmt.Errorf("registering the metrics of ClusterServiceVersions: %w", err)
	}
	return nil
}
