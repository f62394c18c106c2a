package console

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Message is a sentence that an operation reports in addition to its result.
type Message struct {
	Text      string `json:"text"`
	IsWarning bool   `json:"isWarning,omitempty"`
}

// recorder records the messages of an operation for its response.
type recorder struct {
	report.Quiet

	messages []Message
}

// Done implements report.Progress.
func (r *recorder) Done(message string) {
	r.messages = append(r.messages, Message{Text: asSentence(message)})
}

// Warn implements report.Progress.
func (r *recorder) Warn(message string) {
	r.messages = append(r.messages, Message{Text: asSentence(message), IsWarning: true})
}

// Refusal states why a change would be refused, as part of its preview.
type Refusal struct {
	Detail string `json:"detail"`
	// Advice states what to do.
	Advice string `json:"advice,omitempty"`
}

// newRefusal returns the refusal for the error of a check, or nil.
func newRefusal(err error) *Refusal {
	if err == nil {
		return nil
	}
	return &Refusal{Detail: asSentence(err.Error()), Advice: asSentence(report.AdviceOf(err))}
}

// Manifest is an object as YAML.
type Manifest struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	YAML      string `json:"yaml"`
}

// newManifests returns objects as YAML.
func newManifests(objects []client.Object) ([]Manifest, error) {
	manifests := []Manifest{}
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		text, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("writing %s %q: %w", kind, object.GetName(), err)
		}
		manifests = append(manifests, Manifest{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), YAML: string(text)})
	}
	return manifests, nil
}
