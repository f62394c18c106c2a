package catalogoperator_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// newServedCatalog is a catalog of an image, whose Service leads to a real registry.
func newServedCatalog(t *testing.T, name string) (*fixture, *v1alpha1.CatalogSource) {
	t.Helper()
	address, _ := serve(t, "127.0.0.1:0")
	f := newFixture(t, catalogoperator.Options{Proxy: newServiceNetwork(t, address)})
	return f, f.catalog(name, image("quay.io/example/catalog:v1"))
}

func image(reference string) v1alpha1.CatalogSourceSpec {
	return v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: reference}
}

// TestImage: a catalog of an image gets its objects, and catalog-operator connects to it.
func TestImage(t *testing.T) {
	f, catalog := newServedCatalog(t, "my.catalog")
	f.waitForState(catalog, "READY")
	want := "my-catalog." + f.namespace + ".svc:50051"
	if got := catalog.Status.GRPCConnectionState.Address; got != want {
		t.Errorf("got the address %s, want %s", got, want)
	}

	service := catalog.Status.RegistryServiceStatus
	if service.Protocol != "grpc" || service.ServiceName != "my-catalog" || service.ServiceNamespace != f.namespace || service.Port != "50051" || service.CreatedAt.IsZero() {
		t.Errorf("got the Service %+v", service)
	}

	pod := f.onePod("olm.catalogSource", "my.catalog")
	for _, object := range []client.Object{
		pod, named(&corev1.Service{}, "my-catalog"), named(&corev1.ServiceAccount{}, "my.catalog"),
		named(&networkingv1.NetworkPolicy{}, "my.catalog-grpc-server"), named(&networkingv1.NetworkPolicy{}, "my.catalog-unpack-bundles"),
	} {
		object.SetNamespace(f.namespace)
		f.Must(f.get(object))
		owner := metav1.GetControllerOf(object)
		if owner == nil || owner.UID != catalog.UID || object.GetLabels()["olm.managed"] != "true" {
			t.Errorf("%T %s: got the owners %v and the labels %v", object, object.GetName(), owner, object.GetLabels())
		}
	}

	f.expectNoWrites(catalog)
}

// named returns an object with a name.
func named[T client.Object](object T, name string) T {
	object.SetName(name)
	return object
}

// expectNoWrites checks that another reconciliation of a catalog changes nothing.
func (f *fixture) expectNoWrites(catalog *v1alpha1.CatalogSource) {
	f.T.Helper()
	versions := func() string {
		var text strings.Builder
		for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &networkingv1.NetworkPolicyList{}} {
			f.Must(f.List(f.T.Context(), list, client.InNamespace(f.namespace)))
			fmt.Fprint(&text, list.GetResourceVersion() == "", " ")
			items, err := metaOf(list)
			f.Must(err)
			for _, object := range items {
				fmt.Fprintln(&text, object.GetName(), object.GetResourceVersion())
			}
		}
		return text.String()
	}

	before := versions()
	// The second catalog is reconciled after the first: its status reports that it is invalid.
	env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) { s.Spec.Publisher = "Nobody" })
	f.waitForReason(f.catalog("after", v1alpha1.CatalogSourceSpec{SourceType: "none"}), "SpecInvalidError", is("unknown sourcetype: none"))
	if after := versions(); after != before {
		f.T.Errorf("got the resource versions\n%s\nwant those from before\n%s", after, before)
	}
}

func metaOf(list client.ObjectList) ([]client.Object, error) {
	switch l := list.(type) {
	case *corev1.PodList:
		return pointers(l.Items), nil
	case *corev1.ServiceList:
		return pointers(l.Items), nil
	case *corev1.ServiceAccountList:
		return pointers(l.Items), nil
	case *networkingv1.NetworkPolicyList:
		return pointers(l.Items), nil
	}

	return nil, fmt.Errorf("%T is not supported", list)
}

func pointers[T any, P interface {
	*T
	client.Object
}](items []T) []client.Object {
	var all []client.Object
	for i := range items {
		all = append(all, P(&items[i]))
	}
	return all
}

// TestRepairsObjects: changed and deleted objects are restored.
func TestRepairsObjects(t *testing.T) {
	f, catalog := newServedCatalog(t, "repaired")
	f.waitForState(catalog, "READY")
	t.Run("pod deleted", func(t *testing.T) {
		pod := f.onePod("olm.catalogSource", "repaired")
		f.Must(f.Delete(t.Context(), pod))
		f.onePod("olm.catalogSource", "repaired", pod.Name)
	})
	t.Run("pod changed", func(*testing.T) {
		pod := f.onePod("olm.catalogSource", "repaired")
		env.EditObject(f.Fixture, pod, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "quay.io/example/evil:v1" })
		f.onePod("olm.catalogSource", "repaired", pod.Name)
	})
	t.Run("node gone", func(*testing.T) {
		pod := f.onePod("olm.catalogSource", "repaired")
		f.updatePodStatus(pod, func(s *corev1.PodStatus) {
			s.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		})
		f.onePod("olm.catalogSource", "repaired", pod.Name)
		f.eventually(func() error { return f.isDeleted(pod) })
	})
	t.Run("evicted", func(*testing.T) {
		pod := f.onePod("olm.catalogSource", "repaired")
		f.updatePodStatus(pod, func(s *corev1.PodStatus) { s.Phase, s.Reason = corev1.PodFailed, "Evicted" })
		f.onePod("olm.catalogSource", "repaired", pod.Name)
	})
	t.Run("one pod too many", func(t *testing.T) {
		pod := f.onePod("olm.catalogSource", "repaired")
		second := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "repaired-", Namespace: f.namespace, Labels: pod.Labels, OwnerReferences: pod.OwnerReferences,
		}, Spec: pod.Spec}
		f.Must(f.Create(t.Context(), second))
		f.onePod("olm.catalogSource", "repaired")
	})
	service := named(&corev1.Service{}, "repaired")
	account := named(&corev1.ServiceAccount{}, "repaired")
	policy := named(&networkingv1.NetworkPolicy{}, "repaired-grpc-server")
	unpacking := named(&networkingv1.NetworkPolicy{}, "repaired-unpack-bundles")
	for _, object := range []client.Object{service, account, policy, unpacking} {
		t.Run(fmt.Sprintf("%T %s deleted", object, object.GetName()), func(t *testing.T) {
			object.SetNamespace(f.namespace)
			f.Must(f.get(object))
			old := object.GetUID()
			f.Must(f.Delete(t.Context(), object))
			f.eventually(func() error {
				if err := f.get(object); err != nil {
					return err
				}
				if object.GetUID() == old {
					return fmt.Errorf("the object has not been replaced")
				}
				return nil
			})
		})
	}
	t.Run("Service changed", func(*testing.T) {
		env.EditObject(f.Fixture, service, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "evil"} })
		f.eventually(func() error {
			if err := f.get(service); err != nil || service.Spec.Selector["olm.catalogSource"] == "repaired" {
				return err
			}
			return fmt.Errorf("the selector is %v", service.Spec.Selector)
		})
	})
	t.Run("policy changed", func(*testing.T) {
		env.EditObject(f.Fixture, policy, func(p *networkingv1.NetworkPolicy) { p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}} })
		f.eventually(func() error {
			if err := f.get(policy); err != nil || len(policy.Spec.Egress) == 0 {
				return err
			}
			return fmt.Errorf("egress is %v", policy.Spec.Egress)
		})
	})
	for _, object := range []client.Object{service, account, policy, unpacking} {
		t.Run(fmt.Sprintf("%T %s without labels", object, object.GetName()), func(*testing.T) {
			f.Must(f.get(object))
			labels := object.GetLabels()
			env.EditObject(f.Fixture, object, func(o client.Object) { o.SetLabels(nil) })
			f.eventually(func() error {
				if err := f.get(object); err != nil || maps.Equal(object.GetLabels(), labels) {
					return err
				}
				return fmt.Errorf("got the labels %v, want %v", object.GetLabels(), labels)
			})
		})
	}
	f.waitForState(catalog, "READY")
}

// TestSpecChanges: the pod is updated with the catalog, its namespace and its annotations.
func TestSpecChanges(t *testing.T) {
	address, _ := serve(t, "127.0.0.1:0")
	f := newFixture(t, catalogoperator.Options{Proxy: newServiceNetwork(t, address), SetUserID: true})
	catalog := f.catalog("changes", image("quay.io/example/catalog:v1"))
	pod := f.onePod("olm.catalogSource", "changes")
	f.waitForState(catalog, "READY")
	created := catalog.Status.RegistryServiceStatus.CreatedAt

	env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) { s.Spec.Image = "quay.io/example/catalog:v2" })
	next := f.onePod("olm.catalogSource", "changes", pod.Name)
	if got := next.Spec.Containers[0].Image; got != "quay.io/example/catalog:v2" {
		t.Errorf("got the image %s", got)
	}

	f.Must(f.get(catalog))
	if catalog.Status.RegistryServiceStatus.CreatedAt.Before(&created) {
		t.Error("got an older pod than before, want a newer one")
	}

	env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) {
		s.Annotations = map[string]string{v1alpha1.AnnotationPriorityClass: "system-node-critical"}
	})
	last := f.onePod("olm.catalogSource", "changes", pod.Name, next.Name)
	if got := last.Spec.PriorityClassName; got != "system-node-critical" {
		t.Errorf("got the priority class %q", got)
	}

	namespace := named(&corev1.Namespace{}, f.namespace)
	env.EditObject(f.Fixture, namespace, func(n *corev1.Namespace) { n.Labels["pod-security.kubernetes.io/enforce"] = "restricted" })
	f.eventually(func() error {
		restricted := f.onePod("olm.catalogSource", "changes", pod.Name, next.Name, last.Name)
		if restricted.Spec.SecurityContext == nil || restricted.Spec.SecurityContext.SeccompProfile == nil {
			return fmt.Errorf("the pod is not confined: %+v", restricted.Spec.SecurityContext)
		}
		return nil
	})
}

// TestRemovesObjectsOfAddressOnlyCatalog: a catalog whose image was replaced by an address has no
// objects.
func TestRemovesObjectsOfAddressOnlyCatalog(t *testing.T) {
	f, catalog := newServedCatalog(t, "withdrawn")
	f.waitForState(catalog, "READY")
	address, _ := serve(t, "127.0.0.1:0")
	env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) { s.Spec.Image, s.Spec.Address = "", address })
	f.eventually(func() error {
		for _, object := range []client.Object{
			named(&corev1.Service{}, "withdrawn"), named(&corev1.ServiceAccount{}, "withdrawn"),
			named(&networkingv1.NetworkPolicy{}, "withdrawn-grpc-server"), named(&networkingv1.NetworkPolicy{}, "withdrawn-unpack-bundles"),
		} {
			object.SetNamespace(f.namespace)
			if err := f.isDeleted(object); err != nil {
				return err
			}
		}

		if pods := f.pods(labelServing, "withdrawn"); len(pods) > 0 {
			return fmt.Errorf("pod %s still exists", pods[0].Name)
		}
		if err := f.get(catalog); err != nil {
			return err
		}
		if s := catalog.Status; s.RegistryServiceStatus.ServiceName != "" || s.GRPCConnectionState.Address != address {
			return fmt.Errorf("the status is %+v %+v", s.RegistryServiceStatus, s.GRPCConnectionState)
		}

		return nil
	})

	f.waitForState(catalog, "READY")
}

// TestForeignObjectsAreKept checks that objects of other owners are not changed, and that the status reports them.
func TestForeignObjectsAreKept(t *testing.T) {
	f := newFixture(t, catalogoperator.Options{})
	mine := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "powerful", Namespace: f.namespace}}
	f.Must(f.Create(t.Context(), mine))
	catalog := f.catalog("powerful", image("quay.io/example/catalog:v1"))
	f.waitForReason(catalog, "RegistryServerError", is("couldn't ensure registry server - ServiceAccount "+f.namespace+
		"/powerful already exists and does not belong to this catalog: delete it, or create the catalog with another name"))
	if pods := f.pods("olm.catalogSource", "powerful"); len(pods) != 0 {
		t.Errorf("got pods %v, want none", pods)
	}

	f.Must(f.get(mine))
	if len(mine.OwnerReferences) != 0 {
		t.Error("the object of another owner was changed")
	}

	long := f.catalog(strings.Repeat("long", 16), image("quay.io/example/catalog:v1"))
	f.waitForReason(long, "RegistryServerError", func(m string) bool { return strings.Contains(m, "at most 63 characters") })
	extracting := image("quay.io/example/catalog:v1")
	extracting.GrpcPodConfig = &v1alpha1.GrpcPodConfig{ExtractContent: &v1alpha1.ExtractContentConfig{CatalogDir: "/configs"}}
	f.waitForReason(f.catalog("extracting", extracting), "RegistryServerError", func(m string) bool { return strings.Contains(m, "--opmImage") })
}

// TestPodProblems checks that the status of a catalog explains why its pod does not serve.
func TestPodProblems(t *testing.T) {
	address, stop := serve(t, "127.0.0.1:0")
	stop()
	f := newFixture(t, catalogoperator.Options{Proxy: newServiceNetwork(t, address)})
	catalog := f.catalog("broken", image("quay.io/example/nothing:v1"))
	pod := f.onePod("olm.catalogSource", "broken")
	f.updatePodStatus(pod, func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "registry-server", Image: "quay.io/example/nothing:v1",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		}}
	})

	f.waitForReason(catalog, "RegistryServerError", is("couldn't connect to registry - pod "+pod.Name+
		`: container registry-server waits for image "quay.io/example/nothing:v1", which cannot be pulled: check the reference and spec.secrets; the pod's events say more`))

	// A corrected reference has another pod.
	env.EditObject(f.Fixture, catalog, func(c *v1alpha1.CatalogSource) { c.Spec.Image = "quay.io/example/catalog:v1" })
	corrected := f.onePod(labelServing, "broken", pod.Name)
	if got := corrected.Spec.Containers[0].Image; got != "quay.io/example/catalog:v1" {
		t.Errorf("got the image %s in the new pod, want the corrected one", got)
	}
	serve(t, address)
	f.setPodRunning(corrected, "sha256:1")
	f.waitForState(catalog, "READY")
	f.waitForReason(catalog, "", is(""))
}

// TestUnreachable: a ready pod that cannot be reached is reported until it is reachable.
func TestUnreachable(t *testing.T) {
	address, stop := serve(t, "127.0.0.1:0")
	stop()
	f := newFixture(t, catalogoperator.Options{Proxy: newServiceNetwork(t, address)})
	catalog := f.catalog("unreachable", image("quay.io/example/catalog:v1"))
	f.waitForState(catalog, "TRANSIENT_FAILURE")
	if catalog.Status.Message != "" {
		t.Errorf("got the message %q for a pod that is starting, want none", catalog.Status.Message)
	}

	f.setPodRunning(f.onePod(labelServing, "unreachable"), "sha256:1")
	f.waitForReason(catalog, "RegistryServerError", func(m string) bool {
		return strings.HasPrefix(m, "couldn't connect to registry - asking the proxy of GRPC_PROXY for a connection to unreachable."+f.namespace+".svc:50051: ")
	})
	serve(t, address)
	f.waitForState(catalog, "READY")
	f.waitForReason(catalog, "", is(""))
}
