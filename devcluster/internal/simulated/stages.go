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

// Questions that a stage asks a pod, in jq.
const (
	isDeleted  = `.metadata.deletionTimestamp`
	phase      = `.status.phase`
	ready      = `.status.conditions.[] | select( .type == "Ready" ) | .status`
	waitingFor = `.status.containerStatuses.[] | .state.waiting.reason`
	owner      = `.metadata.ownerReferences.[].kind`
	behavior   = `.metadata.annotations["` + BehaviorAnnotation + `"]`
	// endsForGood reports whether a container that fails is not restarted. For a Job's pod that is the simplification that
	// lets a Job reach its backoff limit, which counts restarts that nobody plays.
	endsForGood = `.spec.restartPolicy == "Never" or ([.metadata.ownerReferences[]?.kind] | index("Job")) != null`
)

func expression(key string, operator v1alpha1.SelectorOperator, values ...string) v1alpha1.MatchExpression {
	return v1alpha1.MatchExpression{JQ: &v1alpha1.SelectorJQ{Key: key, Operator: operator, Values: values}}
}

func in(key string, values ...string) v1alpha1.MatchExpression {
	return expression(key, v1alpha1.SelectorOpIn, values...)
}

func notIn(key string, values ...string) v1alpha1.MatchExpression {
	return expression(key, v1alpha1.SelectorOpNotIn, values...)
}

// podStage moves every pod that meets all requirements to the status of a template; without a template it deletes it.
type podStage struct {
	name     string
	when     []v1alpha1.MatchExpression
	template string
	event    *v1alpha1.StageEvent
}

// podStages exclude one another: at most one applies to a pod in any state, and none to a pod that is where it belongs.
func podStages() []podStage {
	alive := expression(isDeleted, v1alpha1.SelectorOpDoesNotExist)
	deleted := expression(isDeleted, v1alpha1.SelectorOpExists)
	active := in(phase, "Pending", "Running")
	return []podStage{
		{name: "pod-ready", template: "ready", when: []v1alpha1.MatchExpression{
			alive, active, notIn(ready, "True"), notIn(behavior, Unready, Fail),
		}},
		{name: "pod-unready", template: "unready", when: []v1alpha1.MatchExpression{
			alive, in(phase, "Pending"), in(behavior, Unready),
		}},
		{name: "pod-becomes-unready", template: "unready", when: []v1alpha1.MatchExpression{
			alive, in(phase, "Running"), in(ready, "True"), in(behavior, Unready),
		}},
		{
			name: "pod-crashes", template: "crashing", when: []v1alpha1.MatchExpression{
				alive, active, notIn(waitingFor, "CrashLoopBackOff"), in(behavior, Fail), in(endsForGood, "false"),
			},
			event: &v1alpha1.StageEvent{
				Type: "Warning", Reason: "BackOff", Message: "Back-off restarting failed container",
			},
		},
		{name: "pod-fails", template: "failed", when: []v1alpha1.MatchExpression{
			alive, active, in(behavior, Fail), in(endsForGood, "true"),
		}},
		{name: "pod-completes", template: "completed", when: []v1alpha1.MatchExpression{
			alive, in(phase, "Running"), in(ready, "True"), in(owner, "Job"), notIn(behavior, Unready, Fail),
		}},
		{name: "pod-ends", when: []v1alpha1.MatchExpression{deleted}},
	}
}

func (s podStage) stage() (*internalversion.Stage, error) {
	steps, err := s.steps()
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

func (s podStage) steps() ([]v1alpha1.StageStep, error) {
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

// stages are those of pods, defined here, and of nodes, which are kwok's own.
func stages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	all := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, pod := range podStages() {
		stage, err := pod.stage()
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
