package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// trafficInterval is the pause of a client between two requests.
const trafficInterval = 20 * time.Millisecond

// traffic is requests of clients that are sent until they are stopped. No request may fail.
type traffic struct {
	stop    context.CancelFunc
	clients sync.WaitGroup

	mu     sync.Mutex
	counts map[string]int
	errs   []error
}

// request is a request that one client repeats. It returns an error if the response is not the expected one.
type request struct {
	name string
	send func(ctx context.Context, client rest.Interface) error
}

// startTraffic starts a client for each request.
func (o *operatorFixture) startTraffic(ctx context.Context, requests ...request) (*traffic, error) {
	client, err := rest.UnversionedRESTClientFor(newRawConfig(o.connection))
	if err != nil {
		return nil, err
	}

	ctx, stop := context.WithCancel(ctx)
	t := &traffic{stop: stop, counts: map[string]int{}}
	for _, r := range requests {
		t.clients.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				err := r.send(context.WithoutCancel(ctx), client)
				t.record(r.name, began, err)
				select {
				case <-ctx.Done():
				case <-time.After(trafficInterval):
				}
			}
		})
	}

	return t, nil
}

func (t *traffic) record(name string, began time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[name]++
	if err != nil {
		t.errs = append(t.errs, fmt.Errorf("%s, %s request %d: %w", began.Format("15:04:05.000"), name, t.counts[name], err))
	}
}

// end stops the clients. It returns the failures of their requests, and an error if a client sent none.
func (t *traffic) end() error {
	t.stop()
	t.clients.Wait()
	errs := t.errs
	for name, count := range t.counts {
		if count == 0 {
			errs = append(errs, fmt.Errorf("%s sent no request", name))
		}
	}
	return errors.Join(errs...)
}

// newGreetingRequest returns a request for a greeting over HTTP, through the Service of the operator.
func newGreetingRequest(namespace, of string) request {
	path := fmt.Sprintf("/api/v1/namespaces/%s/services/hello-operator:80/proxy/%s/world", namespace, of)
	return request{namespace + "/" + of, func(ctx context.Context, client rest.Interface) error {
		return expectContent(ctx, client.Get().AbsPath(path), ", world!")
	}}
}

// newAPIRequests returns requests that the API server answers with the help of the operator: its aggregated API, and its
// webhooks.
func newAPIRequests() []request {
	return append(newWebhookRequests(), request{"aggregated API", func(ctx context.Context, client rest.Interface) error {
		return expectContent(ctx, client.Get().AbsPath("/apis/words.hello.example.com/v1/words/greeting"), `"kind":"Word"`)
	}})
}

// newWebhookRequests returns requests that the API server answers with the webhooks of the operator, which validate,
// default and convert.
func newWebhookRequests() []request {
	greetings := func(version string) string {
		return "/apis/hello.example.com/" + version + "/namespaces/default/greetings"
	}
	content := func(version, name, spec string) string {
		return fmt.Sprintf(`{"apiVersion": "hello.example.com/%s", "kind": "Greeting", "metadata": {"name": %q}, "spec": %s}`, version, name, spec)
	}
	return []request{
		{"validation", func(ctx context.Context, client rest.Interface) error {
			err := client.Post().AbsPath(greetings("v1alpha1")).SetHeader("Content-Type", "application/json").
				Body([]byte(content("v1alpha1", "nobody", `{"name": "nobody"}`))).Do(ctx).Error()
			if err == nil || !strings.Contains(err.Error(), "cannot be greeted") {
				return fmt.Errorf("got %w, want a refusal", err)
			}
			return nil
		}},
		{"default and conversion", func(ctx context.Context, client rest.Interface) error {
			err := expectContent(ctx, client.Post().AbsPath(greetings("v1beta1")).SetHeader("Content-Type", "application/json").
				Body([]byte(content("v1beta1", "traveller", `{"recipient": "traveller"}`))), `"recipient":"traveller"`, `"language":"en"`)
			read := expectContent(ctx, client.Get().AbsPath(greetings("v1alpha1")+"/traveller"), `"name":"traveller"`, `"language":"en"`)
			removed := client.Delete().AbsPath(greetings("v1alpha1") + "/traveller").Do(ctx).Error()
			return errors.Join(err, read, removed)
		}},
	}
}

// expectContent sends a request, and returns an error unless the response contains all texts.
func expectContent(ctx context.Context, r *rest.Request, texts ...string) error {
	body, err := r.Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	for _, text := range texts {
		if !strings.Contains(string(body), text) {
			return fmt.Errorf("got response %s, want %q in it", body, text)
		}
	}
	return nil
}

// newRawConfig returns a connection for requests of any path.
func newRawConfig(connection *rest.Config) *rest.Config {
	raw := rest.CopyConfig(connection)
	raw.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	raw.WarningHandler = rest.NoWarnings{}
	raw.Timeout = 30 * time.Second
	return raw
}
