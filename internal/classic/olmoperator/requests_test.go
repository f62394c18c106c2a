package olmoperator_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// maxInstallationRequests is how many requests olm-operator and catalog-operator may send for one Subscription, from its
// creation until its Operator is complete. The operator has cluster-wide rights and one copied CSV. The usual count is 48 to
// 58. It depends on the order of events: on a busy machine fewer events share a pass, for example while a CRD is being
// established, and up to 78 requests were counted. The limit detects requests that are repeated for each object or each pass;
// `make bench` measures the other ones.
const maxInstallationRequests = 100

// requestCounter is a transport that counts requests by verb and resource, except watches.
type requestCounter struct {
	mu     sync.Mutex
	counts map[string]int
	last   time.Time
}

// connect makes a connection count its requests.
func (c *requestCounter) connect(connection *rest.Config) {
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper { return &requestCounterTransport{c, next} })
}

// reset sets the counts to zero.
func (c *requestCounter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = map[string]int{}
}

// settledCounts returns the counts once no request has been sent for a while; an error before.
func (c *requestCounter) settledCounts() (map[string]int, error) {
	const settleTime = 4 * time.Second // More than the interval in which Operators are reported.
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := time.Since(c.last); since < settleTime {
		return nil, fmt.Errorf("the last request was sent %s ago", since)
	}
	return maps.Clone(c.counts), nil
}

// requestCounterTransport is the transport of one connection.
type requestCounterTransport struct {
	*requestCounter

	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *requestCounterTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "" {
		t.mu.Lock()
		t.counts[request.Method+" "+requestedResource(request.URL.Path)]++
		t.last = time.Now()
		t.mu.Unlock()
	}
	return t.next.RoundTrip(request)
}

// requestedResource returns RESOURCE or RESOURCE/SUBRESOURCE of the path of a request, or a path without a resource.
func requestedResource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	start := 3 // apis/GROUP/VERSION
	if parts[0] == "api" {
		start = 2
	}
	if len(parts) <= start {
		return path
	}

	parts = parts[start:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}

// One Subscription needs a limited number of requests until its operator works and its Operator lists all components.
func TestRequestsOfInstallation(t *testing.T) {
	f := newFixture(t)
	counter := &requestCounter{counts: map[string]int{}}
	f.start(programOptions{connect: counter.connect})

	for _, name := range []string{"warm", "counted"} { // The first installation fills caches.
		i := f.newInstallationOf(name, "1.0.0")
		var counts map[string]int
		f.Eventually("the programs send no requests", func() (err error) {
			_, err = counter.settledCounts()
			return err
		})
		counter.reset()
		f.CreateAll(&v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name},
			Spec: v1alpha1.SubscriptionSpec{
				CatalogSource: "catalog", CatalogSourceNamespace: i.namespace, Package: name, Channel: "stable",
			},
		})
		f.Eventually("the operator is installed", func() error { return i.checkInstalled("1.0.0", v1alpha1.SubscriptionStateAtLatest) })
		f.Eventually("the Operator lists its components", i.checkReported)
		f.Eventually("the programs send no requests", func() (err error) {
			counts, err = counter.settledCounts()
			return err
		})
		if name == "counted" {
			checkCounts(t, counts)
		}
	}
}

// checkReported returns an error unless the Operator lists a component with conditions.
func (i *installation) checkReported() error {
	o := &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: i.name + "." + i.namespace}}
	if err := i.Get(i.T.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	if o.Status.Components == nil || !slices.ContainsFunc(o.Status.Components.Refs, func(r operatorsv1.ComponentReference) bool {
		return r.Kind == "Deployment" && len(r.Conditions) > 0
	}) {
		return fmt.Errorf("the Operator %s has the components %+v", o.Name, o.Status.Components)
	}
	return nil
}

// checkCounts fails the test if there are more requests than stated.
func checkCounts(t *testing.T, counts map[string]int) {
	t.Helper()
	total := 0
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		total += counts[what]
		lines = append(lines, fmt.Sprintf("%4d %s", counts[what], what))
	}

	t.Logf("%d requests:\n%s", total, strings.Join(lines, "\n"))
	if total > maxInstallationRequests {
		t.Errorf("got %d requests for one Subscription, want at most %d", total, maxInstallationRequests)
	}
}
