package clusterupdate

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/update/updates"
)

// Settings reads the version of the cluster with all that concerns it.
type Settings struct {
	// Client is the client of the cluster.
	Client client.Client
}

// VersionSettings is the version of the cluster with all that concerns it.
type VersionSettings struct {
	// Absence states why the cluster has no ClusterVersion. All other fields are then empty.
	Absence *Absence `json:"absence,omitempty"`
	// Generation is the generation of the ClusterVersion. Changes repeat it, so that they do not overwrite others.
	Generation int64                 `json:"generation"`
	Summary    ClusterVersionSummary `json:"summary"`
	// Desired is the release that the cluster has, or is updated to.
	Desired configv1.Release `json:"desired"`
	// Completed is the version that was applied completely last. It is empty if there is none.
	Completed string `json:"completed,omitempty"`
	// Requested is the release that the spec names. It is empty if it names none.
	Requested string `json:"requested,omitempty"`
	ClusterID string `json:"clusterID"`
	Channel   string `json:"channel,omitempty"`
	Upstream  string `json:"upstream,omitempty"`
	// Minors are the available updates by minor version, the highest first.
	Minors []Minor `json:"minors"`
	// Blocked states why updates to another minor version are refused. It is nil if they are not.
	Blocked *Blocker `json:"blocked,omitempty"`
	// Risks are the known issues of the available updates.
	Risks    []UpdateRisk      `json:"risks,omitempty"`
	Rollback *RollbackPlan     `json:"rollback,omitempty"`
	History  []HistoryEntry    `json:"history,omitempty"`
	Objects  []UnmanagedObject `json:"unmanaged,omitempty"`
	// SignatureStores are the URLs that signatures of releases are read from. Empty means those of the release.
	SignatureStores []string            `json:"signatureStores,omitempty"`
	Conditions      []OperatorCondition `json:"conditions,omitempty"`
}

// Absence states why a cluster has no ClusterVersion.
type Absence struct {
	// KindExists reports whether the cluster serves the kind, so that the object can be created.
	KindExists bool   `json:"kindExists"`
	Text       string `json:"text"`
	Advice     string `json:"advice"`
}

// Blocker is a condition that blocks updates to another minor version.
type Blocker struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// UpdateRisk is a known issue of an available update.
type UpdateRisk struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	URL     string `json:"url"`
	// Applies is True, False or Unknown.
	Applies string `json:"applies" enum:"True,False,Unknown"`
	// Accepted reports whether the spec accepts the risk.
	Accepted bool `json:"accepted"`
	// Versions are the updates with this risk.
	Versions []string `json:"versions"`
}

// HistoryEntry is a release that the cluster has had.
type HistoryEntry struct {
	Version string `json:"version,omitempty"`
	Image   string `json:"image"`
	State   string `json:"state" enum:"Completed,Partial"`
	// Verified reports whether the signature of the release was verified.
	Verified      bool         `json:"verified"`
	Started       metav1.Time  `json:"started"`
	Completed     *metav1.Time `json:"completed,omitempty"`
	AcceptedRisks string       `json:"acceptedRisks,omitempty"`
}

// UnmanagedObject is an object of the release that the operator does not manage.
type UnmanagedObject struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// OperatorCondition is a condition of a ClusterVersion or a ClusterOperator.
type OperatorCondition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// Run reads the settings. A cluster without a ClusterVersion is no error.
func (a *Settings) Run(ctx context.Context) (*VersionSettings, error) {
	cv, err := Read(ctx, a.Client)
	if absence := explainAbsence(err); absence != nil {
		return &VersionSettings{Absence: absence, Minors: []Minor{}}, nil
	}
	if err != nil {
		return nil, err
	}
	return DescribeSettings(cv), nil
}

// explainAbsence returns why there is no ClusterVersion, and nil if the error does not say that.
func explainAbsence(err error) *Absence {
	const meaning = "Nothing manages the version of this cluster. Extensions and operators do not need that."
	switch {
	case err == nil:
		return nil
	case action.IsUnknownKind(err):
		return &Absence{
			Text:   meaning + " The cluster does not know the kind ClusterVersion.",
			Advice: "To update the cluster by signed releases, run the cluster-version-operator, which creates the kind (see 'mainstay run cluster-version-operator --help'). Then create the ClusterVersion.",
		}
	case apierrors.IsNotFound(err):
		return &Absence{
			KindExists: true, Text: meaning + " The cluster knows the kind ClusterVersion, but has none.",
			Advice: "To let the cluster-version-operator manage the version, create the ClusterVersion here or with 'mainstay cluster init'. The cluster starts with the release of the operator.",
		}
	}
	return nil
}

// DescribeSettings returns the settings of a ClusterVersion.
func DescribeSettings(cv *configv1.ClusterVersion) *VersionSettings {
	accepted := AcceptedRisks(cv)
	s := &VersionSettings{
		Generation: cv.Generation, Summary: Summarize(cv), Desired: cv.Status.Desired, ClusterID: cv.Spec.ClusterID, Channel: cv.Spec.Channel,
		Upstream: updates.RedactSource(cv.Spec.Upstream), Minors: groupByMinorVersion(Options(cv, accepted)), Risks: describeRisks(cv, accepted), Rollback: planRollback(cv),
		Conditions: describeConditions(cv.Status.Conditions),
	}
	if update := cv.Spec.DesiredUpdate; update != nil {
		s.Requested = cmp.Or(update.Version, update.Image)
	}
	if f := upgradeableCondition(cv); f != nil {
		s.Blocked = &Blocker{Reason: f.reason, Message: f.message}
	}

	for i := range cv.Status.History {
		entry := &cv.Status.History[i]
		if s.Completed == "" && entry.State == configv1.CompletedUpdate {
			s.Completed = entry.Version
		}
		s.History = append(s.History, HistoryEntry{
			Version: entry.Version, Image: entry.Image, State: string(entry.State), Verified: entry.Verified, Started: entry.StartedTime,
			Completed: entry.CompletionTime, AcceptedRisks: entry.AcceptedRisks,
		})
	}

	for _, o := range cv.Spec.Overrides {
		if o.Unmanaged {
			s.Objects = append(s.Objects, UnmanagedObject{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name})
		}
	}
	for _, store := range cv.Spec.SignatureStores {
		s.SignatureStores = append(s.SignatureStores, updates.RedactSource(store.URL))
	}
	return s
}

// describeRisks returns the risks of the available updates, sorted by name.
func describeRisks(cv *configv1.ClusterVersion, accepted []string) []UpdateRisk {
	found := map[string]*UpdateRisk{}
	for _, update := range cv.Status.ConditionalUpdates {
		for _, risk := range update.Risks {
			known := found[risk.Name]
			if known == nil {
				known = &UpdateRisk{Name: risk.Name, Message: risk.Message, URL: risk.URL, Applies: string(metav1.ConditionUnknown), Accepted: slices.Contains(accepted, risk.Name)}
				found[risk.Name] = known
			}
			if c := meta.FindStatusCondition(risk.Conditions, configv1.ConditionalUpdateRiskApplies); c != nil {
				known.Applies = string(c.Status)
			}
			known.Versions = append(known.Versions, update.Release.Version)
		}
	}

	var risks []UpdateRisk
	for _, risk := range found {
		risks = append(risks, *risk)
	}
	slices.SortFunc(risks, func(a, b UpdateRisk) int { return cmp.Compare(a.Name, b.Name) })
	return risks
}

func describeConditions(conditions []configv1.ClusterOperatorStatusCondition) []OperatorCondition {
	var described []OperatorCondition
	for i := range conditions {
		c := &conditions[i]
		described = append(described, OperatorCondition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime})
	}
	return described
}
