package catalogoperator_test

import (
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// value returns a metric of a catalog.
func value(name string, catalog *v1alpha1.CatalogSource) (float64, bool, error) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return 0, false, err
	}

	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["namespace"] == catalog.Namespace && labels["name"] == catalog.Name {
				return m.GetGauge().GetValue(), true, nil
			}
		}
	}

	return 0, false, nil
}

func (f *fixture) waitForMetric(name string, catalog *v1alpha1.CatalogSource, want float64) {
	f.T.Helper()
	f.eventually(func() error {
		got, ok, err := value(name, catalog)
		if err == nil && (!ok || got != want) {
			err = fmt.Errorf("%s of %s is %v (%v), want %v", name, catalog.Name, got, ok, want)
		}
		return err
	})
}

func (f *fixture) waitForMetricRemoved(name string, catalog *v1alpha1.CatalogSource) {
	f.T.Helper()
	f.eventually(func() error {
		_, ok, err := value(name, catalog)
		if ok {
			err = fmt.Errorf("%s of %s still exists", name, catalog.Name)
		}
		return err
	})
}

// waitForCatalogCount waits until the metric with the number of catalogs is right.
func (f *fixture) waitForCatalogCount() {
	f.T.Helper()
	f.eventually(func() error {
		var catalogs v1alpha1.CatalogSourceList
		if err := f.List(f.T.Context(), &catalogs); err != nil {
			return err
		}

		families, err := metrics.Registry.Gather()
		if err != nil {
			return err
		}

		for _, family := range families {
			if family.GetName() != "catalog_source_count" {
				continue
			}
			if got := family.GetMetric()[0].GetGauge().GetValue(); got != float64(len(catalogs.Items)) {
				return fmt.Errorf("catalog_source_count is %v, there are %d", got, len(catalogs.Items))
			}
			return nil
		}

		return errors.New("there is no catalog_source_count")
	})
}
