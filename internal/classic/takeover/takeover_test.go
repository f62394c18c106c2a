package takeover

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

func TestIsCreatedByOLM(t *testing.T) {
	ownedBy := func(apiVersion, kind string) metav1.ObjectMeta {
		return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner"}}}
	}
	labelled := func(kind string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Labels: map[string]string{csvinfo.LabelOwner: "owner", csvinfo.LabelOwnerNamespace: "ns", csvinfo.LabelOwnerKind: kind}}
	}
	tests := map[string]struct {
		kind string
		meta metav1.ObjectMeta
		want bool
	}{
		"owned by a ClusterServiceVersion":            {"Deployment", ownedBy("operators.coreos.com/v1alpha1", "ClusterServiceVersion"), true},
		"owned by an OperatorCondition":               {"Role", ownedBy("operators.coreos.com/v2", "OperatorCondition"), true},
		"Service of a catalog":                        {"Service", ownedBy("operators.coreos.com/v1alpha1", "CatalogSource"), true},
		"ConfigMap with the content of a catalog":     {"ConfigMap", ownedBy("operators.coreos.com/v1alpha1", "CatalogSource"), false},
		"owned by a Subscription":                     {"ConfigMap", ownedBy("operators.coreos.com/v1alpha1", "Subscription"), false},
		"owned by a kind of the name in other groups": {"Deployment", ownedBy("example.com/v1", "ClusterServiceVersion"), false},
		"owner labels of a ClusterServiceVersion":     {"ClusterRole", labelled("ClusterServiceVersion"), true},
		"owner labels of an OperatorGroup":            {"ClusterRole", labelled("OperatorGroup"), false},
		"owner labels of something else":              {"ClusterRole", labelled("Deployment"), false},
		"owner labels without a name":                 {"ClusterRole", metav1.ObjectMeta{Labels: map[string]string{csvinfo.LabelOwnerKind: "ClusterServiceVersion"}}, false},
		"CRD of a bundle":                             {"CustomResourceDefinition", metav1.ObjectMeta{Annotations: map[string]string{csvinfo.AnnotationInstalledAlongside + "1f": "ns/csv"}}, true},
		"CRD of a user":                               {"CustomResourceDefinition", metav1.ObjectMeta{}, false},
		"nothing":                                     {"Secret", metav1.ObjectMeta{}, false},
	}

	for name, tt := range tests {
		if got := isCreatedByOLM(tt.kind, &tt.meta); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}
