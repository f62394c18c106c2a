// Package olmoperator is the component olm-operator: the controllers of ClusterServiceVersions
// (csv), of OperatorGroups (group), of copies (copied), of OperatorConditions (condition), and the
// reporters of the ClusterOperators.
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
	"github.com/mainstay-dev/mainstay/internal/classic/csv"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
)

// Options configure the component.
type Options struct {
	// Namespace is where the program runs.
	Namespace string
	// Release is the version of the platform that it belongs to; empty means none.
	Release string
	// Program is the version of this program.
	Program string
	// ClusterOperator is what it reports by; empty means that it does not.
	ClusterOperator string
	// PackageServer is the ClusterOperator of the package server, reported by what the
	// ClusterServiceVersion that is labelled with its name comes to; empty means none.
	PackageServer string
	// ProtectedNamespaces have copies of all operators even if an OLMConfig disables them.
	ProtectedNamespaces []string
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// Tune sets up the cache and the client of a manager for the component. ClusterServiceVersions are
// held without their copies, Subscriptions without what is not configuration, and of what operators
// consist of only what OLM made; what is read seldom, or must not be out of date, is not held at all. The cache's namespaces are left alone.
func Tune(o *ctrl.Options) {
	if o.Cache.ByObject == nil {
		o.Cache.ByObject = map[client.Object]cache.ByObject{}
	}

	noCopy, err := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.DoesNotExist, nil)
	if err == nil { // the label is a valid one
		o.Cache.ByObject[&v1alpha1.ClusterServiceVersion{}] = cache.ByObject{Label: labels.NewSelector().Add(*noCopy)}
	}

	managed := labels.SelectorFromSet(labels.Set{csvinfo.LabelManaged: "true"})
	for _, kind := range csv.Managed() {
		o.Cache.ByObject[kind] = cache.ByObject{Label: managed}
	}

	// Not by kind: that would ask for the kind of a cluster that may not have it.
	strip := cache.TransformStripManagedFields()
	o.Cache.DefaultTransform = func(object any) (any, error) {
		light, err := csv.Lighten(object)
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

// Setup adds the controllers of the component to a manager, which Tune was called for. It is the one
// list of them.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	marked, err := group.NewCache(mgr)
	if err != nil {
		return err
	}

	syncs := &clusteroperator.Syncs{}
	report := clusteroperator.Options{Namespace: o.Namespace, Release: o.Release, Program: o.Program, Syncs: syncs, Clock: o.Clock}
	olm, packages := report, report
	olm.Name, packages.Name = o.ClusterOperator, o.PackageServer

	return errors.Join(
		csv.Setup(mgr, csv.Options{Clock: o.Clock, Syncs: syncs}),
		group.Setup(mgr, group.Options{Clock: o.Clock, Marked: marked}),
		copied.Setup(mgr, copied.Options{Clock: o.Clock, Marked: marked, ProtectedNamespaces: o.ProtectedNamespaces}),
		condition.Setup(mgr, condition.Options{}),
		clusteroperator.SetupOLM(mgr, olm),
		clusteroperator.SetupPackageServer(mgr, packages),
	)
}

// Measure registers the metrics of the component. A process does so once.
func Measure(mgr ctrl.Manager) error {
	if err := metrics.Registry.Register(&csv.Metrics{Reader: mgr.GetClient()}); err != nil {
		return fmt.Errorf("registering the metrics of ClusterServiceVersions: %w", err)
	}
	return nil
}
