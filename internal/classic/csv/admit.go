package csv

import (
	"errors"
	"strings"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
)

// Membership is what is known of the OperatorGroup of a namespace.
type Membership struct {
	// Group is the only one; nil together with Err, which is group.ErrNone or group.ErrSeveral.
	Group *operatorsv1.OperatorGroup
	Err   error
	// All are the groups of the cluster.
	All []operatorsv1.OperatorGroup
}

// Admission is what a group makes of a ClusterServiceVersion.
type Admission struct {
	Outcome
	// Stop: the pass ends here.
	Stop bool
	// Annotations, if not nil, are what its annotations must be first.
	Annotations map[string]string
	// ProvidedAPIs, if not nil, is what the group must list first.
	ProvidedAPIs *string
	// Unwanted: its Deployments are deleted, since others provide its APIs.
	Unwanted bool
}

// Admit says what the group of its namespace makes of a ClusterServiceVersion.
func Admit(csv *v1alpha1.ClusterServiceVersion, m Membership) Admission {
	refuse := func(reason string, err string) Admission {
		return Admission{Stop: true, Outcome: to(v1alpha1.CSVPhaseFailed, reason, err)}
	}
	switch {
	case errors.Is(m.Err, group.ErrNone):
		return refuse(v1alpha1.CSVReasonNoOperatorGroup, "csv in namespace with no operatorgroups")
	case errors.Is(m.Err, group.ErrSeveral):
		return refuse(v1alpha1.CSVReasonTooManyOperatorGroups, "csv created in namespace with multiple operatorgroups, can't pick one automatically")
	}

	if annotations, changed := group.Annotated(csv, m.Group); changed {
		if len(m.Group.Status.Namespaces) == 0 {
			return refuse(v1alpha1.CSVReasonNoTargetNamespaces, "no targetNamespaces are matched operatorgroups namespace selection")
		}
		return Admission{Stop: true, Annotations: annotations}
	}

	if err := csvinfo.CheckModes(csv.Spec.InstallModes); err != nil {
		return refuse(v1alpha1.CSVReasonInvalidInstallModes, err.Error())
	}
	if err := csvinfo.Supports(csv.Spec.InstallModes, csv.Namespace, m.Group.Status.Namespaces); err != nil {
		return refuse(v1alpha1.CSVReasonUnsupportedOperatorGroup, err.Error())
	}
	if _, ok := csv.Annotations[csvinfo.AnnotationTargetNamespaces]; !ok {
		return refuse(v1alpha1.CSVReasonNoTargetNamespaces, "csv missing olm.targetNamespaces annotation")
	}

	return admitAPIs(csv, m)
}

// admitAPIs has the group list the APIs that a ClusterServiceVersion provides, unless an
// intersecting group does.
func admitAPIs(csv *v1alpha1.ClusterServiceVersion, m Membership) Admission {
	provided, err := csvinfo.Provided(csv)
	if err != nil {
		return Admission{Stop: true}
	}

	d := group.Decide(provided, group.Listed(m.Group), group.Others(m.Group, m.All), m.Group.Spec.StaticProvidedAPIs)
	if d.Reason != "" {
		return Admission{
			Stop: true, Outcome: to(v1alpha1.CSVPhaseFailed, d.Reason, d.Message),
			Unwanted: csv.Status.Reason != d.Reason,
		}
	}

	text := csvinfo.Join(d.ProvidedAPIs)
	if d.Outcome == group.NoAPIConflict || text == strings.TrimSpace(m.Group.Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotation]) {
		return Admission{}
	}

	return Admission{Stop: true, ProvidedAPIs: &text}
}
