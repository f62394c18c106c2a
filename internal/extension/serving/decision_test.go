package serving

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestDecideCertificate tests the facts about the Secret of a Service. TestDecide tests the steps of a
// renewal.
func TestDecideCertificate(t *testing.T) {
	service := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hooks", UID: "service"}}
	issued := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "secret"}}
	state := mustPerformStep(t, stepIssue, issued, nil, epoch)
	setSecretMetadata(issued, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "cert"}}, service)
	due := state.current.RenewAt()
	unreadable := errors.New("forbidden")
	for _, tc := range []struct {
		name  string
		facts facts
		want  decision
	}{
		{"no Service requests it", facts{}, decision{release: true}},
		{"it cannot be read", facts{service: service, err: unreadable}, decision{stop: unreadable}},
		{"it was not issued here", facts{service: service, live: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "secret"}}},
			decision{foreign: true, resyncAfter: foreignSecretRetryInterval}},
		{"it does not exist", facts{service: service, live: &corev1.Secret{}, now: epoch}, decision{step: stepIssue, resyncAfter: trustPropagationDelay}},
		{"it does not have all host names", facts{service: service, live: issued, now: epoch}, decision{step: stepIssue, resyncAfter: trustPropagationDelay}},
		{"it is valid", facts{service: service, live: reissued(t, issued, service), now: epoch}, decision{step: stepKeep, resyncAfter: certificateResyncInterval}},
		{"it is soon due", facts{service: service, live: reissued(t, issued, service), now: due.Add(-time.Hour)}, decision{step: stepKeep, resyncAfter: time.Hour}},
		{"it is due", facts{service: service, live: reissued(t, issued, service), now: due}, decision{step: stepBegin, resyncAfter: trustPropagationDelay}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := decideCertificate(&tc.facts)
			if got.release != tc.want.release || got.foreign != tc.want.foreign || !errors.Is(got.stop, tc.want.stop) {
				t.Errorf("release %v, foreign %v, stop %v; want %v, %v, %v", got.release, got.foreign, got.stop, tc.want.release, tc.want.foreign, tc.want.stop)
			}
			if got.step != tc.want.step || got.resyncAfter != tc.want.resyncAfter {
				t.Errorf("got step %s, requeue after %s; want %s, %s", got.step, got.resyncAfter, tc.want.step, tc.want.resyncAfter)
			}
			if got.secret != nil && got.secret.Annotations[annotationService] != service.Name {
				t.Errorf("got Service %q in the annotation of the Secret, want %q", got.secret.Annotations[annotationService], service.Name)
			}
		})
	}
}

// reissued returns a Secret with a certificate for all host names of a Service.
func reissued(t *testing.T, secret *corev1.Secret, service *metav1.PartialObjectMetadata) *corev1.Secret {
	t.Helper()
	all := serviceHostNames(service)
	result := secret.DeepCopy()
	if err := performRenewalStep(stepIssue, result, parseSecretState(result, all, epoch), all, nil, epoch); err != nil {
		t.Fatal(err)
	}
	return result
}
