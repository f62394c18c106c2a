package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// 'kubectl get' must print the same columns as other implementations of OLM Classic, because scripts read them.
func TestColumnsOfClassic(t *testing.T) {
	const (
		catalogColumns = "Display .spec.displayName, Type .spec.sourceType, Publisher .spec.publisher, Age .metadata.creationTimestamp"
		csvColumns     = "Display .spec.displayName, Version .spec.version, Release .spec.release, Replaces .spec.replaces, Phase .status.phase"
		planColumns    = "CSV .spec.clusterServiceVersionNames[0], Approval .spec.approval, Approved .spec.approved"
		subColumns     = "Package .spec.name, Source .spec.source, Channel .spec.channel"
	)
	want := map[string]string{"CatalogSource": catalogColumns, "ClusterServiceVersion": csvColumns, "InstallPlan": planColumns, "Subscription": subColumns}
	for _, crd := range classicCRDs(t) {
		for _, version := range crd.Spec.Versions {
			var columns []string
			for _, column := range version.AdditionalPrinterColumns {
				columns = append(columns, column.Name+" "+column.JSONPath)
			}
			if diff := cmp.Diff(want[crd.Spec.Names.Kind], strings.Join(columns, ", ")); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", crd.Spec.Names.Kind, version.Name, diff)
			}
		}
	}
}
