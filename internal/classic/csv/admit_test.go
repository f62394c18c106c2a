package csv

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// ofGroup returns an OperatorGroup that lists APIs.
func ofGroup(namespace, listed string, targets ...string) *operatorsv1.OperatorGroup {
	g := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g", Annotations: map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: listed}}}
	g.Status.Namespaces = targets
	return g
}

func TestAdmit(t *testing.T) {
	all := []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}}
	own := []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
	annotations := func(targets string) map[string]string {
		return map[string]string{csvinfo.AnnotationOperatorGroup: "g", csvinfo.AnnotationOperatorNamespace: "ns", csvinfo.AnnotationTargetNamespaces: targets}
	}
	withAPI := func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "as.example.com", Version: "v1", Kind: "A"}}
	}
	refused := func(reason, message string) Admission {
		return Admission{Stop: true, Outcome: transitionTo(v1alpha1.CSVPhaseFailed, reason, message)}
	}
	static := ofGroup("ns", "", "ns")
	static.Spec.StaticProvidedAPIs = true
	const api, siblingAPI = "A.v1.example.com", "B.v1.example.com"
	sibling := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sibling"}}
	sibling.Spec.InstallModes = own
	sibling.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "bs.example.com", Version: "v1", Kind: "B"}}
	tests := map[string]struct {
		modes       []v1alpha1.InstallMode
		annotations map[string]string
		edit        func(*v1alpha1.ClusterServiceVersion)
		m           Membership
		want        Admission
	}{
		"none":      {m: Membership{Err: fmt.Errorf("x: %w", membership.ErrNone)}, want: refused("NoOperatorGroup", "csv in namespace with no operatorgroups")},
		"several":   {m: Membership{Err: membership.ErrSeveral}, want: refused("TooManyOperatorGroups", "csv created in namespace with multiple operatorgroups, can't pick one automatically")},
		"no target": {m: Membership{Group: ofGroup("ns", "")}, want: refused("NoTargetNamespaces", "no targetNamespaces are matched operatorgroups namespace selection")},
		"annotate":  {m: Membership{Group: ofGroup("ns", "", "y", "x")}, want: Admission{Stop: true, Annotations: annotations("x,y")}},
		"a mode twice": {
			modes: append(all, all...), annotations: annotations(""), m: Membership{Group: ofGroup("ns", "", "")},
			want: refused("InvalidInstallModes", "InstallMode list contains duplicates, cannot make set: [{AllNamespaces true} {AllNamespaces true}]"),
		},
		"not supported": {
			modes: all, annotations: annotations("ns"), m: Membership{Group: ofGroup("ns", "", "ns")},
			want: refused("UnsupportedOperatorGroup", "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace"),
		},
		"admitted": {modes: own, annotations: annotations("ns"), m: Membership{Group: ofGroup("ns", "", "ns")}},
		"add":      {modes: own, annotations: annotations("ns"), edit: withAPI, m: Membership{Group: ofGroup("ns", "", "ns")}, want: Admission{Stop: true, ProvidedAPIs: ptr.To(api)}},
		"add those of other new operators": {
			modes: own, annotations: annotations("ns"), edit: withAPI, m: Membership{Group: ofGroup("ns", "", "ns"), CSVs: []v1alpha1.ClusterServiceVersion{sibling}},
			want: Admission{Stop: true, ProvidedAPIs: ptr.To(api + "," + siblingAPI)},
		},
		"add, another new operator conflicts": {
			modes: own, annotations: annotations("ns"), edit: withAPI,
			m: Membership{
				Group: ofGroup("ns", "", "ns"), CSVs: []v1alpha1.ClusterServiceVersion{sibling}, All: []operatorsv1.OperatorGroup{*ofGroup("other", siblingAPI, "")},
			},
			want: Admission{Stop: true, ProvidedAPIs: ptr.To(api)},
		},
		"listed":  {modes: own, annotations: annotations("ns"), edit: withAPI, m: Membership{Group: ofGroup("ns", api, "ns")}},
		"static":  {modes: own, annotations: annotations("ns"), edit: withAPI, m: Membership{Group: static}, want: unwanted("CannotModifyStaticOperatorGroupProvidedAPIs", "static provided api operatorgroup cannot be modified by these apis")},
		"another": {modes: own, annotations: annotations("ns"), edit: withAPI, m: Membership{Group: ofGroup("ns", "", "ns"), All: []operatorsv1.OperatorGroup{*ofGroup("other", api, "")}}, want: unwanted("InterOperatorGroupOwnerConflict", "intersecting operatorgroups provide the same apis")},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			csv := in(v1alpha1.CSVPhasePending, "")
			csv.Spec.InstallModes, csv.Annotations = tt.modes, tt.annotations
			if tt.edit != nil {
				tt.edit(csv)
			}
			if diff := cmp.Diff(tt.want, Admit(csv, tt.m)); diff != "" {
				t.Errorf("admission (-want +got):\n%s", diff)
			}
		})
	}
}

func unwanted(reason, message string) Admission {
	return Admission{Stop: true, Outcome: transitionTo(v1alpha1.CSVPhaseFailed, reason, message), DeleteDeployments: true}
}

// The Deployments of a ClusterServiceVersion with an API conflict are deleted once.
func TestAdmitUnwantedOnce(t *testing.T) {
	csv := in(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInterOperatorGroupOwnerConflict)
	csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
	csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "as.example.com", Version: "v1", Kind: "A"}}
	g := ofGroup("ns", "", "ns")
	csv.Annotations, _ = membership.WithGroupAnnotations(csv, g)
	got := Admit(csv, Membership{Group: g, All: []operatorsv1.OperatorGroup{*ofGroup("other", "A.v1.example.com", "")}})
	if got.DeleteDeployments || got.Reason != v1alpha1.CSVReasonInterOperatorGroupOwnerConflict {
		t.Errorf("admission %+v", got)
	}
}
