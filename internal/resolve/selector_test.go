package resolve_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

func TestSelectCatalogs(t *testing.T) {
	clusterCatalog := func(name string, labels map[string]string) olmv1.ClusterCatalog {
		return olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	catalogs := []olmv1.ClusterCatalog{
		clusterCatalog("redhat", map[string]string{"example.com/support": "production", olmv1.LabelMetadataName: "redhat"}),
		clusterCatalog("community", map[string]string{"example.com/support": "supported", "example.com/testing": "yes"}),
		clusterCatalog("own", map[string]string{"example.com/support": "true", "example.com/testing": "no", olmv1.LabelMetadataName: "redhat"}),
		clusterCatalog("plain", nil),
	}

	match := func(labels map[string]string, expressions ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: labels, MatchExpressions: expressions}
	}
	where := func(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	cases := map[string]struct {
		selector *metav1.LabelSelector
		want     []string
	}{
		"no selector keeps all":                               {nil, []string{"redhat", "community", "own", "plain"}},
		"an empty selector keeps all":                         {match(nil), []string{"redhat", "community", "own", "plain"}},
		"by name, although another catalog has it as a label": {match(map[string]string{olmv1.LabelMetadataName: "redhat"}), []string{"redhat"}},
		"by name before the label is written":                 {match(map[string]string{olmv1.LabelMetadataName: "plain"}), []string{"plain"}},
		"by label and value":                                  {match(map[string]string{"example.com/support": "true"}), []string{"own"}},
		"by expression":                                       {match(nil, where("example.com/support", metav1.LabelSelectorOpIn, "production", "supported")), []string{"redhat", "community"}},
		"labels and expressions must all hold": {match(map[string]string{"example.com/testing": "yes"},
			where("example.com/support", metav1.LabelSelectorOpIn, "production", "supported")), []string{"community"}},
		"exclusion by name":  {match(nil, where(olmv1.LabelMetadataName, metav1.LabelSelectorOpNotIn, "community")), []string{"redhat", "own", "plain"}},
		"exclusion by label": {match(nil, where("example.com/testing", metav1.LabelSelectorOpDoesNotExist)), []string{"redhat", "plain"}},
		"no catalog matches": {match(map[string]string{"example.com/support": "none"}), nil},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			selected, err := resolve.SelectCatalogs(tc.selector, catalogs)
			if err != nil {
				t.Fatal(err)
			}

			var got []string
			for _, c := range selected {
				got = append(got, c.Name)
			}

			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("selected catalogs (-want +got)\n%s", diff)
			}
		})
	}

	if diff := cmp.Diff(map[string]string{"example.com/support": "true", "example.com/testing": "no", olmv1.LabelMetadataName: "redhat"}, catalogs[2].Labels); diff != "" {
		t.Errorf("the catalogs' labels were changed (-want +got)\n%s", diff)
	}
	if catalogs[3].Labels != nil {
		t.Errorf("got the labels %v of a catalog, want none", catalogs[3].Labels)
	}
}

func TestInvalidSelector(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{
		"unknown operator": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like", Values: []string{"b"}}}},
		"no values":        {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}},
		"invalid value":    {MatchLabels: map[string]string{"a": "not a value!"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolve.SelectCatalogs(selector, nil)
			var invalid *resolve.InvalidSelectorError
			if !errors.As(err, &invalid) || invalid.Err == nil {
				t.Fatalf("got error %v, want an InvalidSelectorError", err)
			}
		})
	}
}
