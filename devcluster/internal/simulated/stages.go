package simulated

import (
	"embed"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/config"
)

// templates are kwok's Go templates of a pod's status. Each begins with started.tmpl, which defines $now.
//
//go:embed templates
var templates embed.FS

// The jq queries by which a stage selects pods.
const (
	deletionTimestampQuery = `.metadata.deletionTimestamp`
	phaseQuery             = `.status.phase`
	readyQuery             = `.status.conditions.[] | select( .type == "Ready" ) | .status`
	waitingReasonQuery     = `.status.containerStatuses.[] | .state.waiting.reason`
	ownerKindQuery         = `.metadata.ownerReferences.[].kind`
	behaviorQuery          = `.metadata.annotations["` + BehaviorAnnotation + `"]`
	// failsPermanentlyQuery reports whether a failed container is not restarted. It treats every pod of a Job as one
	// that is not restarted. This simplification lets a Job reach its backoff limit, which counts restarts that are not
	// simulated.
	failsPermanentlyQuery = `.spec.restartPolicy == "Never" or ([.metadata.ownerReferences[]?.kind] | index("Job")) != null`
)

func matchExpression(key string, operator v1alpha1.SelectorOperator, values ...string) v1alpha1.MatchExpression {
	return v1alpha1.MatchExpression{JQ: &v1alpha1.SelectorJQ{Key: key, Operator: operator, Values: values}}
}

func valueIn(key string, values ...string) v1alpha1.MatchExpression {
	return matchExpression(key, v1alpha1.SelectorOpIn, values...)
}

func valueNotIn(key string, values ...string) v1alpha1.MatchExpression {
	return matchExpression(key, v1alpha1.SelectorOpNotIn, values...)
}

// podStage changes every pod that matches all expressions to the status of a template. Without a template, it deletes
// the pod.
type podStage struct {
	name     string
	when     []v1alpha1.MatchExpression
	template string
	event    *v1alpha1.StageEvent
}

// podStages returns stages that exclude one another. At most one applies to a pod in any state, and none to a pod in
// its final state.
func podStages() []podStage {
	alive := matchExpression(deletionTimestampQuery, v1alpha1.SelectorOpDoesNotExist)
	deleted := matchExpression(deletionTimestampQuery, v1alpha1.SelectorOpExists)
	active := valueIn(phaseQuery, "Pending", "Running")
	return []podStage{
		{name: "pod-ready", template: "ready", when: []v1alpha1.MatchExpression{
			alive, active, valueNotIn(readyQuery, "True"), valueNotIn(behaviorQuery, Unready, Fail),
		}},
		{name: "pod-unready", template: "unready", when: []v1alpha1.MatchExpression{
			alive, valueIn(phaseQuery, "Pending"), valueIn(behaviorQuery, Unready),
		}},
		{name: "pod-becomes-unready", template: "unready", when: []v1alpha1.MatchExpression{
			alive, valueIn(phaseQuery, "Running"), valueIn(readyQuery, "True"), valueIn(behaviorQuery, Unready),
		}},
		{
			name: "pod-crashes", template: "crashing", when: []v1alpha1.MatchExpression{
				alive, active, valueNotIn(waitingReasonQuery, "CrashLoopBackOff"), valueIn(behaviorQuery, Fail), valueIn(failsPermanentlyQuery, "false"),
			},
			event: &v1alpha1.StageEvent{
				Type: "Warning", Reason: "BackOff", Message: "Back-off restarting failed container",
			},
		},
		{name: "pod-fails", template: "failed", when: []v1alpha1.MatchExpression{
			alive, active, valueIn(behaviorQuery, Fail), valueIn(failsPermanentlyQuery, "true"),
		}},
		{name: "pod-completes", template: "completed", when: []v1alpha1.MatchExpression{
			alive, valueIn(phaseQuery, "Running"), valueIn(readyQuery, "True"), valueIn(ownerKindQuery, "Job"), valueNotIn(behaviorQuery, Unready, Fail),
		}},
		{name: "pod-ends", when: []v1alpha1.MatchExpression{deleted}},
	}
}

func (s podStage) buildStage() (*internalversion.Stage, error) {
	steps, err := s.buildSteps()
	if err != nil {
		return nil, err
	}
	return internalversion.ConvertToInternalStage(&v1alpha1.Stage{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.StageKind},
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: v1alpha1.StageSpec{
			ResourceRef: v1alpha1.StageResourceRef{APIGroup: "v1", Kind: "Pod"},
			Selector:    &v1alpha1.StageSelector{MatchExpressions: s.when},
			Steps:       steps,
		},
	})
}

func (s podStage) buildSteps() ([]v1alpha1.StageStep, error) {
	if s.template == "" {
		return []v1alpha1.StageStep{{Delete: true}}, nil
	}

	var status strings.Builder
	for _, file := range []string{"started", s.template} {
		content, err := templates.ReadFile("templates/" + file + ".tmpl")
		if err != nil {
			return nil, err
		}
		status.Write(content)
	}

	patch := &v1alpha1.StagePatch{Subresource: "status", Root: "status", Template: status.String()}
	steps := []v1alpha1.StageStep{{Patch: patch}}
	if s.event != nil {
		steps = append(steps, v1alpha1.StageStep{Event: s.event})
	}

	return steps, nil
}

// loadStages returns the stages of pods, which are defined here, and of nodes, which are kwok's own.
func loadStages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	all := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, pod := range podStages() {
		stage, err := pod.buildStage()
		if err != nil {
			return nil, fmt.Errorf("stage %s: %w", pod.name, err)
		}
		all[stage.Spec.ResourceRef] = append(all[stage.Spec.ResourceRef], stage)
	}

	for _, yaml := range []string{fast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease} {
		stage, err := config.UnmarshalWithType[*internalversion.Stage](yaml)
		if err != nil {
			return nil, fmt.Errorf("kwok's node stage: %w", err)
		}
		all[stage.Spec.ResourceRef] = append(all[stage.Spec.ResourceRef], stage)
	}

	return all, nil
}
