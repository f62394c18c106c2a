package csv

import (
	"errors"
	"strings"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// Membership is the OperatorGroup of a namespace and those of the cluster.
type Membership struct {
	// Group is the only group of the namespace. It is nil when Err is set, which is
	// membership.ErrNone or membership.ErrSeveral.
	Group *operatorsv1.OperatorGroup
	Err   error
	// All are the OperatorGroups of the cluster.
	All []operatorsv1.OperatorGroup
	// CSVs are the ClusterServiceVersions of the namespace.
	CSVs []v1alpha1.ClusterServiceVersion
}

// Admission is the result of checking a ClusterServiceVersion against its OperatorGroup.
type Admission struct {
	Outcome
	// Stop ends the reconcile without a decision about the phase.
	Stop bool
	// Annotations, if not nil, replace the annotations of the ClusterServiceVersion first.
	Annotations map[string]string
	// ProvidedAPIs, if not nil, is the list of APIs to set in the group's annotation first.
	ProvidedAPIs *string
	// DeleteDeployments has its Deployments deleted, since other operators provide its APIs.
	DeleteDeployments bool
}

// Admit checks a ClusterServiceVersion against the OperatorGroup of its namespace.
func Admit(csv *v1alpha1.ClusterServiceVersion, m Membership) Admission {
	refuse := func(reason string, err string) Admission {
		return Admission{Stop: true, Outcome: transitionTo(v1alpha1.CSVPhaseFailed, reason, err)}
	}
	switch {
	case errors.Is(m.Err, membership.ErrNone):
		return refuse(v1alpha1.CSVReasonNoOperatorGroup, "csv in namespace with no operatorgroups")
	case errors.Is(m.Err, membership.ErrSeveral):
		return refuse(v1alpha1.CSVReasonTooManyOperatorGroups, "csv created in namespace with multiple operatorgroups, can't pick one automatically")
	}

	if annotations, changed := membership.WithGroupAnnotations(csv, m.Group); changed {
		if len(m.Group.Status.Namespaces) == 0 {
			return refuse(v1alpha1.CSVReasonNoTargetNamespaces, "no targetNamespaces are matched operatorgroups namespace selection")
		}
		return Admission{Stop: true, Annotations: annotations}
	}

	if err := csvinfo.ValidateInstallModes(csv.Spec.InstallModes); err != nil {
		return refuse(v1alpha1.CSVReasonInvalidInstallModes, err.Error())
	}
	if err := csvinfo.ValidateTargets(csv.Spec.InstallModes, csv.Namespace, m.Group.Status.Namespaces); err != nil {
		return refuse(v1alpha1.CSVReasonUnsupportedOperatorGroup, err.Error())
	}
	if _, ok := csv.Annotations[csvinfo.AnnotationTargetNamespaces]; !ok {
		return refuse(v1alpha1.CSVReasonNoTargetNamespaces, "csv missing olm.targetNamespaces annotation")
	}

	return admitProvidedAPIs(csv, m)
}

// admitProvidedAPIs checks the APIs that a ClusterServiceVersion provides against those of
// intersecting groups. It asks for them to be listed in the group if they are not.
func admitProvidedAPIs(csv *v1alpha1.ClusterServiceVersion, m Membership) Admission {
	provided, err := csvinfo.ProvidedAPIs(csv)
	if err != nil {
		return Admission{Stop: true}
	}

	listed, others, isStatic := membership.ListedAPIs(m.Group), membership.APIsOfIntersectingGroups(m.Group, m.All), m.Group.Spec.StaticProvidedAPIs
	d := membership.DecideProvidedAPIs(provided, listed, others, isStatic)
	if d.Outcome == membership.AddAPIs {
		// One write lists the APIs of all new operators, unless another group lists one of these APIs.
		provided = provided.Union(membership.APIsOfNewMembers(m.Group, m.CSVs))
		if all := membership.DecideProvidedAPIs(provided, listed, others, isStatic); all.Outcome == membership.AddAPIs {
			d = all
		}
	}
	if d.Reason != "" {
		return Admission{
			Stop: true, Outcome: transitionTo(v1alpha1.CSVPhaseFailed, d.Reason, d.Message),
			DeleteDeployments: csv.Status.Reason != d.Reason,
		}
	}

	text := csvinfo.JoinAPIs(d.ProvidedAPIs)
	if d.Outcome == membership.NoAPIConflict || text == strings.TrimSpace(m.Group.Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotation]) {
		return Admission{}
	}

	return Admission{Stop: true, ProvidedAPIs: &text}
}
