package apply

import (
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

const scaledDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: NS, name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: quay.io/example/web:v1}]}
`

// scaleAs sets the number of replicas of the Deployment through the scale subresource.
func (b *fixture) scaleAs(manager string, replicas int32) {
	b.t.Helper()
	c, err := kubernetes.NewForConfig(env.Start(b.t))
	if err != nil {
		b.t.Fatal(err)
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "web"}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if _, err := c.AppsV1().Deployments(b.ns).UpdateScale(b.t.Context(), "web", scale, metav1.UpdateOptions{FieldManager: manager}); err != nil {
		b.t.Fatal(err)
	}
}

// The number of replicas that an autoscaler has set stays, in the same revision and in the next one.
// That of a user is drift.
func TestReplicasOfAutoscalers(t *testing.T) {
	b := newFixture(t)
	expect := func(when string, number int64, manifest string, want int64) {
		t.Helper()
		if got := b.applyObject(number, nil, manifest); got.Err != nil {
			t.Fatal(got.Err)
		}
		if got, _, _ := unstructured.NestedInt64(b.readObject(scaledDeployment).Object, "spec", "replicas"); got != want {
			t.Errorf("%s: got %d replicas, want %d", when, got, want)
		}
	}

	expect("created", 1, scaledDeployment, 2)
	b.scaleAs("kubectl", 3)
	expect("scaled by a user", 1, scaledDeployment, 2)
	b.scaleAs("kube-controller-manager", 5)
	expect("scaled by an autoscaler", 1, scaledDeployment, 5)
	expect("taken over by another revision", 2, strings.Replace(scaledDeployment, "replicas: 2", "replicas: 4", 1), 5)
	b.scaleAs("kube-controller-manager", 6)
	expect("scaled again", 2, scaledDeployment, 6)
}
