package acceptance

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// operatorName is the name of the operator that applies releases, as a Deployment or as a
// command.
const operatorName = "cluster-version-operator"

// CheckOperators returns an error if a payload has several operators that apply releases,
// because they would undo each other's changes. A payload without such an operator is valid: the
// operator is then installed by other means.
func CheckOperators(payload *release.Payload, cluster release.Cluster) error {
	found := map[release.Key]bool{}
	var names []string
	for _, manifest := range cluster.Select(payload.Manifests) {
		key := manifest.Key()
		deletes, err := manifest.Deletes()
		if err != nil || deletes || found[key] || !isVersionOperator(manifest) {
			continue
		}

		found[key] = true
		names = append(names, fmt.Sprintf("%s/%s of %s", key.Namespace, key.Name, manifest.File))
	}

	if len(names) > 1 {
		return fmt.Errorf("the release has %d Deployments of %s, and a cluster can have one: %s", len(names), operatorName, strings.Join(names, ", "))
	}

	return nil
}

func isVersionOperator(manifest release.Manifest) bool {
	key := manifest.Key()
	if key.Group != "apps" || key.Kind != "Deployment" {
		return false
	}
	if key.Name == operatorName {
		return true
	}

	containers, _, err := unstructured.NestedSlice(manifest.Object.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return false // The API server will report the error.
	}

	return slices.ContainsFunc(containers, runsOperator)
}

func runsOperator(container any) bool {
	fields, ok := container.(map[string]any)
	if !ok {
		return false
	}

	command, _, err := unstructured.NestedStringSlice(fields, "command")
	if err != nil {
		return false
	}

	args, _, err := unstructured.NestedStringSlice(fields, "args")
	return err == nil && slices.Contains(slices.Concat(command, args), operatorName)
}

// describeAcceptedRisks describes the risks of a release that apply to the cluster and that its
// administrator accepted. It returns "" if there are none.
func describeAcceptedRisks(cv *configv1.ClusterVersion, target configv1.Release) string {
	if cv.Spec.DesiredUpdate == nil {
		return ""
	}

	var names []string
	for _, update := range cv.Status.ConditionalUpdates {
		if update.Release.Image != target.Image {
			continue
		}
		for _, risk := range update.Risks {
			isAccepted := slices.ContainsFunc(cv.Spec.DesiredUpdate.AcceptRisks, func(a configv1.AcceptRisk) bool { return a.Name == risk.Name })
			if isAccepted && isRiskApplicable(risk) {
				names = append(names, risk.Name)
			}
		}
	}

	if len(names) == 0 {
		return ""
	}

	slices.Sort(names)
	return fmt.Sprintf("The target release %s is exposed to the risks [%s] which were all explicitly accepted by the cluster administrator.",
		target.Image, strings.Join(slices.Compact(names), ","))
}

func isRiskApplicable(risk configv1.ConditionalUpdateRisk) bool {
	return slices.ContainsFunc(risk.Conditions, func(c metav1.Condition) bool {
		return c.Type == configv1.ConditionalUpdateRiskApplies && c.Status == metav1.ConditionTrue
	})
}
