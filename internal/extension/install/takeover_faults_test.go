package install_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/rollout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// newRevision returns a ClusterObjectSet with the objects, as the other implementation creates it.
func (p *predecessor) newRevision(collisions olmv1.CollisionProtection) *olmv1.ClusterObjectSet {
	set := &olmv1.ClusterObjectSet{ObjectMeta: metav1.ObjectMeta{
		Name: p.ext.Name + "-1", Finalizers: []string{olmv1.FinalizerTeardown}, OwnerReferences: []metav1.OwnerReference{p.extensionReference()},
		Labels: map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: p.ext.Name},
		Annotations: map[string]string{
			olmv1.AnnotationBundleName: "hello-operator.v1.0.0", olmv1.AnnotationBundleVersion: "1.0.0",
			olmv1.AnnotationPackageName: "hello-operator", olmv1.AnnotationBundleReference: "quay.io/example/hello:1.0.0" + digest,
		},
	}}
	set.Spec = olmv1.ClusterObjectSetSpec{LifecycleState: olmv1.LifecycleStateActive, Revision: 1, CollisionProtection: collisions}
	for i := range p.objects { // Other phases than those of this implementation.
		set.Spec.Phases = append(set.Spec.Phases, olmv1.ClusterObjectSetPhase{
			Name: fmt.Sprintf("phase-%d", i), Objects: []olmv1.ClusterObjectSetObject{{Object: &p.objects[i]}},
		})
	}
	return set
}

// getRevision reads the first revision. It returns nil if there is none.
func (p *predecessor) getRevision() *olmv1.ClusterObjectSet {
	p.T.Helper()
	set := &olmv1.ClusterObjectSet{}
	err := p.Get(p.T.Context(), client.ObjectKey{Name: p.ext.Name + "-1"}, set)
	if client.IgnoreNotFound(err) != nil {
		p.T.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return set
}

// TestTakeOverUnreportedRevision continues after the other implementation ended between the creation of the
// revision of a Helm release and the report that it is installed.
func TestTakeOverUnreportedRevision(t *testing.T) {
	p := newPredecessor(t, "unreported")
	p.createPlainRelease()
	set := p.newRevision(olmv1.CollisionProtectionNone)
	set.Labels["olm.operatorframework.io/migrated-from-helm"] = "true"
	if err := p.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	p.takeOver(1, func() {
		if got := p.getRevision(); got == nil || got.UID != set.UID {
			t.Errorf("got the revision %v, want %s: it was created again", got, set.UID)
		}
	})
}

// TestTakeOverEndsBeforeReport ends the takeover of a Helm release between the creation of the revision and the
// report that it is installed. The next program reports it.
func TestTakeOverEndsBeforeReport(t *testing.T) {
	p := newPredecessor(t, "halted")
	p.createPlainRelease()
	isUnreported := func() bool {
		set := p.getRevision()
		return set != nil && !meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded)
	}

	stop := p.watchInstalled()
	for writes := int64(1); !isUnreported(); writes++ {
		if set := p.getRevision(); set != nil {
			t.Fatalf("got the status %+v of the revision after %d writes, want none between two writes", set.Status, writes-1)
		}
		p.runFor(writes, func() bool { return false })
	}
	set := p.getRevision()
	p.runFor(1<<20, func() bool { return p.isControlledByRevision() && p.isSettled(1) })
	stop()

	p.expectUnchanged()
	if got := p.getRevision(); got.UID != set.UID {
		t.Errorf("got the revision %s, want %s: it was created again", got.UID, set.UID)
	}
	p.removeExtension() // Tests of other predecessors create ClusterRoles of the same names.
}

// TestTakeOverUnreachableCatalog takes over a release while the URL of the catalog does not answer. The objects
// stay, and the extension reports what is installed.
func TestTakeOverUnreachableCatalog(t *testing.T) {
	p := newPredecessor(t, "silent")
	p.contentErr = errors.New("connection refused")
	p.createPlainRelease()

	stop := p.watchInstalled()
	p.runFor(1<<20, p.isControlledByRevision)
	stop()
	p.expectUnchanged()
	if got := p.listBundles(); !slices.Equal(got, []string{"silent-1=1.0.0"}) {
		t.Errorf("got the revisions %q, want only silent-1", got)
	}

	p.removeExtension()
}

// TestTakeOverWaitsForTheOtherManager starts this program while the manager of the other implementation still holds
// the leader lease. It writes nothing until that manager has released the lease.
func TestTakeOverWaitsForTheOtherManager(t *testing.T) {
	p := newPredecessor(t, "two-managers")
	p.createPlainRelease()
	other := env.Client(t, coordinationv1.AddToScheme)
	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.ext.Name, Name: "9c4404e7.operatorframework.io"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("the other manager"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now, RenewTime: &now,
	}}
	if err := other.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}

	var attempts atomic.Int64
	replica := p.StartReplica(env.Manager{
		Options: ctrl.Options{LeaderElectionNamespace: p.ext.Name},
		Setup: func(mgr ctrl.Manager) error {
			return errors.Join(p.newController(mgr).SetupWithManager(mgr), rollout.Setup(mgr, rollout.Options{SystemNamespace: "default"}))
		},
		Connect: func(connection *rest.Config) {
			connection.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(request *http.Request) (*http.Response, error) {
					if strings.HasSuffix(request.URL.Path, "/leases/"+lease.Name) {
						attempts.Add(1)
					}
					return next.RoundTrip(request)
				})
			})
		},
	}, lease.Name)
	p.EventuallyTrue("the program has requested the lease several times", func() bool { return attempts.Load() > 2 }, nil)
	replica.CheckPassive()
	if got := p.listBundles(); len(got) > 0 {
		t.Errorf("got the revisions %q while the other manager is active, want none", got)
	}

	lease.Spec.HolderIdentity = nil
	if err := other.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	replica.WaitForLeadership()
	p.EventuallyTrue("the installation is taken over", func() bool {
		p.markAvailable(t.Context())
		return p.isControlledByRevision()
	}, nil)
	p.expectUnchanged()
	replica.CheckPassive()
	p.removeExtension()
}

// roundTripper is a function that implements http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// readContents returns the objects on the cluster without their metadata and their status.
func (p *predecessor) readContents() map[string]map[string]any {
	p.T.Helper()
	contents := map[string]map[string]any{}
	for i := range p.objects {
		live := p.objects[i].DeepCopy()
		if err := p.Get(p.T.Context(), client.ObjectKeyFromObject(live), live); err != nil {
			p.T.Fatal(err)
		}
		delete(live.Object, "metadata")
		delete(live.Object, "status")
		contents[describeObject(&p.objects[i])] = live.Object
	}
	return contents
}

// listReleases returns the data of the Secrets of the Helm releases of the extension.
func (p *predecessor) listReleases() map[string]map[string][]byte {
	p.T.Helper()
	var secrets corev1.SecretList
	if err := p.List(p.T.Context(), &secrets, client.InNamespace("default"), client.MatchingLabels{"name": p.ext.Name}); err != nil {
		p.T.Fatal(err)
	}
	releases := map[string]map[string][]byte{}
	for i := range secrets.Items {
		releases[secrets.Items[i].Name] = secrets.Items[i].Data
	}
	return releases
}

// writeAs writes the objects of the bundle again, as the other implementation does.
func (p *predecessor) writeAs(by manager) {
	p.T.Helper()
	for i := range p.objects {
		u := p.objects[i].DeepCopy()
		var err error
		if by.update {
			patch, failed := json.Marshal(u.Object)
			err = errors.Join(failed, p.Patch(p.T.Context(), u, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(by.name)))
		} else {
			err = p.Apply(p.T.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(by.name), client.ForceOwnership)
		}
		if err != nil {
			p.T.Fatal(err)
		}
	}
}

// TestReturnToTheOtherImplementation takes an installation over and returns to the other implementation with the same
// version. The data that it needs to continue is unchanged, and its next writes change only metadata of the objects.
func TestReturnToTheOtherImplementation(t *testing.T) {
	for name, test := range map[string]struct {
		by     manager
		create func(*predecessor)
	}{
		"returned-helm": {manager{"operator-controller", true}, (*predecessor).createPlainRelease},
		"returned-revision": {manager{"olm.operatorframework.io", false}, func(p *predecessor) {
			set := p.newRevision(olmv1.CollisionProtectionPrevent)
			if err := p.Create(p.T.Context(), set); err != nil {
				p.T.Fatal(err)
			}
			p.markSucceeded(set)
			p.createObjects(metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind, Name: set.Name, UID: set.UID}, manager{"olm.operatorframework.io", false})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPredecessor(t, name)
			test.create(p)
			extension, revision, releases, contents := p.getExtension(p.ext.Name), p.getRevision(), p.listReleases(), p.readContents()
			p.runFor(1<<20, func() bool { return p.isControlledByRevision() && p.isSettled(1) })

			if diff := cmp.Diff(extension.Spec, p.getExtension(p.ext.Name).Spec); diff != "" {
				t.Errorf("the spec of the extension was changed:\n%s", diff)
			}
			if got := p.getRevision(); revision != nil && (got.UID != revision.UID || !cmp.Equal(got.Spec, revision.Spec)) {
				t.Errorf("the revision was changed:\n%s", cmp.Diff(revision.Spec, got.Spec))
			}
			if diff := cmp.Diff(releases, p.listReleases()); diff != "" {
				t.Errorf("the Helm releases were changed:\n%s", diff)
			}

			p.writeAs(test.by)
			p.expectUnchanged()
			if diff := cmp.Diff(contents, p.readContents()); diff != "" {
				t.Errorf("the objects were changed:\n%s", diff)
			}
			p.removeExtension()
		})
	}
}
