package env_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// errorRecorder is a test that records its errors instead of failing.
type errorRecorder struct {
	testing.TB

	mu     sync.Mutex
	errors []string
}

func (r *errorRecorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *errorRecorder) recorded() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errors)
}

func TestCheckStates(t *testing.T) {
	f := env.NewFixture(t, corev1.AddToScheme)
	namespace := f.NewNamespace("states-")
	for name, test := range map[string]struct {
		act  func(*corev1.ConfigMap) error
		want string // in the error; empty means none
	}{
		"valid": {act: func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"colour": "blue"}
			return f.Update(t.Context(), m)
		}},
		"invalid for a moment": {act: func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"colour": "red"}
			err := f.Update(t.Context(), m)
			m.Data = nil
			return errors.Join(err, f.Update(t.Context(), m))
		}, want: "it is red"},
		"deleted": {act: func(m *corev1.ConfigMap) error { return f.Delete(t.Context(), m) }, want: "it was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "states-"}}
			f.Must(f.Create(t.Context(), object))
			recorder := &errorRecorder{TB: t}
			seen := make(chan string, 10)
			stop := env.CheckStates(&env.Fixture{Client: f.Client, T: recorder}, object, func(m *corev1.ConfigMap) error {
				seen <- m.ResourceVersion
				if m.Data["colour"] == "red" {
					return errors.New("it is red")
				}
				return nil
			})
			<-seen // The watch has begun.
			f.Must(test.act(object))
			if test.want == "" {
				for got := range seen {
					if got == object.ResourceVersion {
						break
					}
				}
			} else {
				env.EventuallyTrue(t, "the test fails", func() bool { return len(recorder.recorded()) > 0 }, nil)
			}

			stop()
			got := strings.Join(recorder.recorded(), "\n")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got the errors %q, want %q", got, test.want)
			}
		})
	}
}
