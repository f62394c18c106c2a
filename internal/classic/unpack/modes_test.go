package unpack_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
)

// modeFixture is a fixture whose catalog is global, and whose bundles are unpacked in a mode.
type modeFixture struct {
	*fixture
	// contentNamespace is where the content is unpacked to.
	contentNamespace string
	// deliver makes the content of the bundle available, by the names of its files.
	deliver func(files map[string]string)
	// timeOut has the first attempt exceed its timeout.
	timeOut func(unpack.Limits)
}

// newBundleTree returns the files of a bundle with a ClusterServiceVersion, or without one.
func newBundleTree(csv string) fstest.MapFS {
	tree := fstest.MapFS{"metadata/annotations.yaml": {Data: []byte("annotations:\n  operators.operatorframework.io.bundle.package.v1: kettle\n")}}
	if csv != "" {
		tree["manifests/csv.yaml"] = &fstest.MapFile{Data: []byte(csv)}
	}
	return tree
}

// modes are the fixtures of all modes.
var modes = map[unpack.Mode]func(*testing.T) *modeFixture{
	unpack.ModeJob: func(t *testing.T) *modeFixture {
		f := newFixture(t)
		return &modeFixture{
			fixture: f, contentNamespace: f.namespace, deliver: f.fillFiles,
			timeOut: func(unpack.Limits) {
				f.fail(f.jobs()[0], "DeadlineExceeded", "Job was active longer than specified deadline")
			},
		}
	},
	unpack.ModeInline: func(t *testing.T) *modeFixture {
		f := newInlineFixture(t)
		f.Trust = f.trust()
		f.lookup.Path = f.host + "/" + f.namespace + "/kettle:v1"
		return &modeFixture{
			fixture: f.fixture, contentNamespace: "default",
			deliver: func(files map[string]string) {
				path, tree := f.lookup.Path, newBundleTree("")
				for name, text := range files {
					tree["manifests/"+name] = &fstest.MapFile{Data: []byte(text)}
				}
				f.push(tree)
				f.lookup.Path = path
			},
			timeOut: func(limits unpack.Limits) { f.now = f.now.Add(limits.Timeout) },
		}
	},
}

// A bundle of a global catalog becomes the same steps in all modes, which refer to the same content in a trusted
// namespace.
func TestModes(t *testing.T) {
	digests := map[string]bool{}
	for mode, start := range modes {
		t.Run(string(mode), func(t *testing.T) {
			f := start(t)
			f.expect(v1alpha1.BundleLookupPending, "JobNotStarted", "unpack job not yet started")
			result := f.unpack(tenMinutes)
			f.expect(v1alpha1.BundleLookupPending, "JobIncomplete", "unpack job not completed")
			if result.Done || result.RequeueAfter <= 0 || result.RequeueAfter > unpack.PendingRequeueInterval {
				t.Errorf("got the result %+v", result)
			}

			f.deliver(map[string]string{"csv.yaml": csv, "service.yaml": service})
			result = f.until("it is unpacked", isDone)
			if result.RequeueAfter != 0 || len(result.Lookup.Conditions) > 0 {
				t.Errorf("got the result %+v", result)
			}

			var made []string
			for _, step := range result.Steps {
				made = append(made, step.Resource.Kind)
				ref, ok := steps.ReferenceOf(step)
				want := steps.Reference{
					Kind: "ConfigMap", Name: ref.Name, Namespace: f.contentNamespace, CatalogSourceName: "shop", CatalogSourceNamespace: f.namespace,
					Replaces: "kettle.v0", Properties: `{"properties":[]}`, Digest: ref.Digest,
				}
				if diff := cmp.Diff(want, ref); diff != "" || !ok {
					t.Errorf("%v %s", ok, diff)
				}
				digests[ref.Digest] = true

				// The catalog is global, so that every namespace may use it.
				among, err := unpack.StepsOf(t.Context(), f, f.Trust, "tea", ref)
				f.Must(err)
				manifest, err := steps.Manifest(step, among)
				if err != nil || step.Resource.Kind == v1alpha1.ClusterServiceVersionKind && !strings.Contains(manifest, `"replaces":"kettle.v0"`) {
					t.Errorf("manifest of %s: got %s (%v)", step.Resource.Kind, manifest, err)
				}
			}
			if diff := cmp.Diff([]string{"ClusterServiceVersion", "Service", "ServiceAccount", "Role", "RoleBinding"}, made); diff != "" {
				t.Error(diff)
			}
			if got := len(f.jobs()); (mode == unpack.ModeJob) != (got > 0) {
				t.Errorf("got %d Jobs", got)
			}
		})
	}

	if all := slices.Collect(maps.Keys(digests)); len(all) != 1 || !strings.HasPrefix(all[0], "sha256:") {
		t.Errorf("got the digests %q, want the same one in all modes", all)
	}
}

// Invalid content is distinguished from failures that can be retried, in all modes.
func TestModesInvalidContent(t *testing.T) {
	for mode, start := range modes {
		t.Run(string(mode), func(t *testing.T) {
			f := start(t)
			f.unpack(tenMinutes)
			f.deliver(map[string]string{"csv.yaml": strings.Replace(csv, `"apiVersion":"operators.coreos.com/v1alpha1",`, "", 1)})
			invalid := (*steps.InvalidError)(nil)
			f.eventually("an error", func() bool {
				result, err := f.Unpack(t.Context(), "tea", f.lookup, unpack.Limits{})
				f.lookup, f.now = result.Lookup, f.now.Add(time.Second)
				return errors.As(err, &invalid)
			})
			if invalid.Error() != "bundle CSV kettle.v1 missing APIVersion" {
				t.Errorf("got error %q", invalid)
			}
		})
	}
}

// The timeout and the retry interval of an OperatorGroup apply in all modes, and an unpack recovers when the bundle
// becomes available.
func TestModesTimeout(t *testing.T) {
	limits := unpack.Limits{Timeout: time.Minute, MinRetryInterval: 30 * time.Second}
	for mode, start := range modes {
		t.Run(string(mode), func(t *testing.T) {
			f := start(t)
			f.unpack(limits)
			f.timeOut(limits)
			f.eventually("it failed", func() bool {
				f.unpack(limits)
				return unpack.Condition(&f.lookup, v1alpha1.BundleLookupFailed) != nil
			})
			c := unpack.Condition(&f.lookup, v1alpha1.BundleLookupFailed)
			if c.Reason != "DeadlineExceeded" || !strings.HasPrefix(c.Message, "Job was active longer than specified deadline") {
				t.Errorf("got the condition %+v", c)
			}
			if unpack.Condition(&f.lookup, v1alpha1.BundleLookupPending) != nil {
				t.Errorf("got a pending condition, too: %+v", f.lookup.Conditions)
			}
			if got := f.Failure([]v1alpha1.BundleLookup{f.lookup}); !strings.HasPrefix(got, "Bundle unpacking failed - DeadlineExceeded: Job was active longer than specified deadline") {
				t.Errorf("got the message %q", got)
			}
			if r := f.unpack(limits); r.RequeueAfter <= 0 || r.RequeueAfter > limits.MinRetryInterval {
				t.Errorf("got a requeue after %v", r.RequeueAfter)
			}

			f.now = f.now.Add(limits.MinRetryInterval)
			f.unpack(limits)
			f.expect(v1alpha1.BundleLookupPending, "JobIncomplete", "unpack job not completed")
			f.deliver(map[string]string{"csv.yaml": csv})
			f.until("it is unpacked", isDone)
		})
	}
}

// A bundle waits for its catalog in all modes.
func TestModesWithoutCatalog(t *testing.T) {
	for mode, start := range modes {
		t.Run(string(mode), func(t *testing.T) {
			f := start(t)
			f.lookup.CatalogSourceRef.Name = "gone"
			f.unpack(tenMinutes)
			f.expect(v1alpha1.BundleLookupPending, "CatalogSourceMissing", "referenced catalogsource not found")
		})
	}
}

// A global catalog's bundles are pulled inline with the logins of the catalog and of the program. A tenant can use the
// name of a ConfigMap for other content, without an effect.
func TestInlineOfGlobalCatalog(t *testing.T) {
	f := newInlineFixture(t)
	f.Trust = f.trust()
	f.push(newBundleTree(csv))
	forged := &corev1.ConfigMap{Data: map[string]string{"csv.yaml": strings.ReplaceAll(csv, "kettle", "worm")}}
	forged.Namespace, forged.Name = f.namespace, unpack.Name(f.lookup.Path)
	f.Must(f.Create(t.Context(), forged))
	result := f.until("it is unpacked", isDone)
	secrets, platform := f.logins()
	if diff := cmp.Diff([]client.ObjectKey{{Namespace: f.namespace, Name: "login"}}, secrets); diff != "" || !platform {
		t.Errorf("logins of the program: %v, want true; Secrets (-want +got)\n%s", platform, diff)
	}
	if got := result.Steps[0].Resource.Name; got != "kettle.v1" {
		t.Errorf("got a step that installs %s, want the pulled kettle.v1", got)
	}

	// The content is deleted with the catalog.
	ref, _ := steps.ReferenceOf(result.Steps[0])
	catalog := &v1alpha1.CatalogSource{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "shop"}, catalog))
	f.Must(f.Delete(t.Context(), catalog))
	f.Must((&unpack.Collector{Client: f.Client, Reader: f.Client, Namespace: "default"}).Collect(t.Context()))
	err := f.Get(t.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("reading the content of a deleted catalog: got %v, want NotFound", err)
	}
}

func TestParseMode(t *testing.T) {
	for _, name := range []string{"job", "inline"} {
		if got, err := unpack.ParseMode(name); err != nil || string(got) != name {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := unpack.ParseMode("Job"); err == nil || err.Error() != `"Job" is not a way to unpack bundles: it must be job or inline` {
		t.Errorf("got %v", err)
	}
}
