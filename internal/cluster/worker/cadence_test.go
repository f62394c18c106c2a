package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// These tests use virtual time, which only passes while all goroutines wait. Therefore they use no API server.

// config returns work with one ConfigMap.
func config(state release.Mode) Work {
	text := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"ns","annotations":{"include.release.openshift.io/self-managed-high-availability":"true"}}}`
	m := release.Manifest{File: "release-manifests/0000_10_a_01.yaml", Document: 1, Raw: []byte(text)}
	if err := m.Object.UnmarshalJSON(m.Raw); err != nil {
		panic(err)
	}

	work := Work{Payload: &release.Payload{Manifests: []release.Manifest{m}}, State: state}
	work.Desired.Image = "a"
	return work
}

// attemptTimes runs a Worker and returns the times since its start at which it tries to create its
// ConfigMap. The attempts return the answers in turn. Later ones succeed, and the object is not
// stored.
func attemptTimes(t *testing.T, work Work, span time.Duration, answers ...error) []time.Duration {
	t.Helper()
	var result []time.Duration
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
				if u, ok := object.(*unstructured.Unstructured); ok && u.GetKind() == "CustomResourceDefinition" {
					return unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "Established", "status": "True"}}, "status", "conditions")
				}

				result = append(result, time.Since(began))
				if len(answers) == 0 {
					return nil
				}

				answer := answers[0]
				answers = answers[1:]
				if errors.Is(answer, errHang) {
					<-ctx.Done()
					return ctx.Err()
				}

				return answer
			},
		}).Build()

		w := New(Options{Client: c, ResyncInterval: 160 * time.Second})
		w.Update(work)
		ctx, cancel := context.WithTimeout(t.Context(), span)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})

	return result
}

// errHang stands for a response that never arrives.
var errHang = errors.New("no answer")

func TestPassAndRetryTimes(t *testing.T) {
	internal := apierrors.NewInternalError(errors.New("a"))
	refused := manifestError{errors.New("refused")}
	many := func(err error, times int) []error { return slices.Repeat([]error{err}, times) }
	// Each is a time, or the range that the jitter allows.
	for name, tc := range map[string]struct {
		state   release.Mode
		span    time.Duration
		answers []error
		want    []string
	}{
		"the period passes between successes": {release.Reconciling, 500 * time.Second, nil, []string{"0s", "160s", "320s", "480s"}},
		"attempts in a pass":                  {release.Updating, 60 * time.Second, many(internal, 2), []string{"0s", "10s", "23s"}},
		"attempts in the first pass":          {release.Initializing, 60 * time.Second, many(internal, 3), []string{"0s", "1s", "3s", "7s"}},
		"pauses after failures": {
			release.Updating, 600 * time.Second, many(refused, 4),
			[]string{"0s", "20s-24s", "60s-72s", "140s-168s", "300s-360s", "460s-520s"},
		},
		"a pass has an end": {release.Updating, 400 * time.Second, many(errHang, 1), []string{"0s", "340s-344s"}},
		"the first pass has an end": {
			release.Initializing, 200 * time.Second, many(errHang, 1), []string{"0s", "180s-184s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := attemptTimes(t, config(tc.state), tc.span, tc.answers...)
			if len(got) != len(tc.want) {
				t.Fatalf("got attempts at %v, want %v", got, tc.want)
			}
			for i, want := range tc.want {
				least, most, isRange := strings.Cut(want, "-")
				if !isRange {
					most = least
				}

				from, fromErr := time.ParseDuration(least)
				to, toErr := time.ParseDuration(most)
				if err := errors.Join(fromErr, toErr); err != nil {
					t.Fatal(err)
				}
				if got[i] < from || got[i] > to {
					t.Errorf("got attempt %d at %s, want %s", i, got[i], want)
				}
			}
		})
	}
}

// The Worker waits for a kind that the release defines. It does not wait for other kinds, or
// while it reconciles.
func TestKindsAreWaitedFor(t *testing.T) {
	brings := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a","annotations":{"include.release.openshift.io/self-managed-high-availability":"true"}},"spec":{"group":"GROUP","names":{"kind":"Thing"}}}`
	thing := `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","annotations":{"include.release.openshift.io/self-managed-high-availability":"true"}}}`
	missing := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "example.com", Kind: "Thing"}}
	for name, tc := range map[string]struct {
		state release.Mode
		group string
		want  []time.Duration
	}{
		"of the release":    {release.Initializing, "example.com", []time.Duration{0, 500 * time.Millisecond, time.Second}},
		"of no release":     {release.Initializing, "example.org", []time.Duration{0, time.Second, 3 * time.Second}},
		"while reconciling": {release.Reconciling, "example.com", []time.Duration{0, 10 * time.Second, 23 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			work := config(tc.state)
			work.Payload.Manifests = nil
			for i, text := range []string{strings.Replace(brings, "GROUP", tc.group, 1), thing} {
				m := release.Manifest{File: "release-manifests/0000_10_a_01.yaml", Document: i + 1, Raw: []byte(text)}
				if err := m.Object.UnmarshalJSON(m.Raw); err != nil {
					t.Fatal(err)
				}
				work.Payload.Manifests = append(work.Payload.Manifests, m)
			}
			if diff := cmp.Diff(tc.want, attemptTimes(t, work, time.Minute, missing, missing)); diff != "" {
				t.Errorf("attempts, -want +got:\n%s", diff)
			}
		})
	}
}

// A changed operator ends the delay after a failure, and has no effect after a success.
func TestOperatorsEndAPause(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		want   int
	}{"after a failure": {manifestError{errors.New("a")}, 2}, "while all is well": {nil, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tried := 0
				c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
					Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
						tried++
						return tc.answer
					},
				}).Build()

				w := New(Options{Client: c, ResyncInterval: time.Hour})
				w.Update(config(release.Reconciling))
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- w.Run(ctx) }()
				synctest.Wait()
				notifyWithoutBlocking(w.operatorChanged)
				synctest.Wait()
				if tried != tc.want {
					t.Errorf("got %d attempts, want %d", tried, tc.want)
				}

				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestObjectSnapshotLimits(t *testing.T) {
	of := item{kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
	for name, tc := range map[string]struct {
		items int
		pages int
		err   error
		want  int
	}{
		"few objects are not listed": {minObjectsToList - 1, 1, nil, 0},
		"several are":                {minObjectsToList, 1, nil, 1},
		"in pages":                   {minObjectsToList, maxListPages, nil, 1},
		"too many pages":             {minObjectsToList, maxListPages + 1, nil, 0},
		"listing fails":              {minObjectsToList, 1, errors.New("a"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			pages := 0
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(of.kind, meta.RESTScopeNamespace)
			c := fake.NewClientBuilder().WithRESTMapper(mapper).WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					if pages++; pages < tc.pages {
						list.SetContinue("more")
					} else {
						list.SetContinue("")
					}
					return tc.err
				},
			}).Build()
			if got := newObjectSnapshot(t.Context(), c, slices.Repeat([]item{of}, tc.items)); len(got.kinds) != tc.want || pages > maxListPages {
				t.Errorf("got %d kinds after %d pages, want %d after at most %d", len(got.kinds), pages, tc.want, maxListPages)
			}
		})
	}
}

func TestReadEnvironment(t *testing.T) {
	object := func(kind string, content map[string]any) *unstructured.Unstructured {
		content["apiVersion"], content["kind"], content["metadata"] = "config.openshift.io/v1", kind, map[string]any{"name": "cluster"}
		return &unstructured.Unstructured{Object: content}
	}
	proxy := object("Proxy", map[string]any{"status": map[string]any{"httpProxy": "http://p", "noProxy": "local"}})
	server := object("APIServer", map[string]any{"spec": map[string]any{"tlsSecurityProfile": map[string]any{"type": "Modern"}}})
	infrastructure := object("Infrastructure", map[string]any{"status": map[string]any{"apiServerInternalURI": "https://api-int.example.com:6443"}})
	bad := object("Infrastructure", map[string]any{"status": map[string]any{"apiServerInternalURI": "::"}})
	for name, tc := range map[string]struct {
		objects []client.Object
		want    environment
		err     string
	}{
		"nothing": {nil, environment{}, ""},
		"everything": {[]client.Object{proxy, server, infrastructure}, environment{
			proxy: []envVar{{"HTTP_PROXY", "http://p"}, {"NO_PROXY", "local"}}, profile: &tlsProfile{"VersionTLS13", modernCiphers}, host: "api-int.example.com", port: "6443",
		}, ""},
		"no URL": {[]client.Object{bad}, environment{}, `reading Infrastructure "cluster": status.apiServerInternalURI must be the URL of the API server, not "::"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readEnvironment(t.Context(), fake.NewClientBuilder().WithObjects(tc.objects...).Build())
			if errorText(err) != tc.err {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(environment{})); diff != "" && err == nil {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A payload that is loaded again with the same content is the same work. Other content or
// another owner is not.
func TestPlanDiffersFrom(t *testing.T) {
	first, again, owned := config(release.Updating), config(release.Updating), config(release.Updating)
	owned.Owner = metav1.OwnerReference{UID: "a"}
	other := config(release.Updating)
	other.Payload.Manifests[0].Raw = append(other.Payload.Manifests[0].Raw, ' ')
	before := newWorkPlan(&first, nil)
	for name, tc := range map[string]struct {
		work Work
		want bool
	}{"the same": {first, false}, "loaded again": {again, false}, "an owner": {owned, true}, "other content": {other, true}} {
		if got := newWorkPlan(&tc.work, before).differsFrom(before); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
