package olmoperator_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// TestFloodOfLabelledObjects has a tenant create many ConfigMaps with the labels of an operator's components, and many
// Subscriptions and OperatorGroups. An operator of another namespace is installed, updated and removed meanwhile. The
// programs do not read the content of the ConfigMaps, do not write them, and write a few times for each other object.
func TestFloodOfLabelledObjects(t *testing.T) {
	const (
		configMaps, subscriptions, groups = 500, 250, 50
		// contentBytes is the size of a ConfigMap. maxReadBytes is a quarter of the total: the labels and names
		// are less than a tenth.
		contentBytes = 20 << 10
		maxReadBytes = configMaps * contentBytes / 4
		// maxWrites are the writes of the programs: one status for each Subscription and OperatorGroup and its
		// three ClusterRoles, some more because both are created one after the other, and those of the operator.
		maxWrites = 3*subscriptions + 8*groups + 500
	)
	f := newFaultFixture(t)
	read := &atomic.Int64{}
	p := f.start(programOptions{connect: func(connection *rest.Config) {
		connection.Wrap(func(next http.RoundTripper) http.RoundTripper { return &meteredTransport{read: read, next: next} })
	}})
	bystander := f.newInstallation("guest")
	tenant := f.NewNamespace("tenant-")
	labels := map[string]string{
		csvinfo.LabelManaged: "true", csvinfo.LabelOwner: bystander.csvName("1.0.0"), csvinfo.LabelOwnerKind: v1alpha1.ClusterServiceVersionKind,
		csvinfo.LabelOwnerNamespace: bystander.namespace, "olm.catalogSource": "catalog", "operators.coreos.com/" + bystander.name + "." + bystander.namespace: "",
	}
	written, bytes := p.written(), read.Load()

	var writers errgroup.Group
	writers.SetLimit(8)
	create := func(count int, newObject func(metav1.ObjectMeta) client.Object) {
		for i := range count {
			writers.Go(func() error {
				return f.Create(t.Context(), newObject(metav1.ObjectMeta{Namespace: tenant, Name: fmt.Sprintf("flood-%d", i), Labels: labels}))
			})
		}
	}
	create(groups, func(meta metav1.ObjectMeta) client.Object { return &operatorsv1.OperatorGroup{ObjectMeta: meta} })
	create(subscriptions, func(meta metav1.ObjectMeta) client.Object {
		return &v1alpha1.Subscription{ObjectMeta: meta, Spec: v1alpha1.SubscriptionSpec{CatalogSource: "none", CatalogSourceNamespace: tenant, Package: meta.Name}}
	})
	create(configMaps, func(meta metav1.ObjectMeta) client.Object {
		return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"content": strings.Repeat("x", contentBytes)}}
	})

	l := lifecycle{installation: bystander, interrupt: noInterruption, await: f.await, want: undisturbed.states, got: states{}}
	l.run()
	f.Must(writers.Wait())
	f.Eventually("the Subscriptions of the tenant are reconciled", func() error { return f.checkFlooded(tenant, subscriptions) })

	gotWrites, gotBytes := p.written()-written, read.Load()-bytes
	t.Logf("the programs wrote %d times and read %d bytes of ConfigMaps", gotWrites, gotBytes)
	if gotWrites > maxWrites {
		t.Errorf("got %d writes of the programs, want at most %d", gotWrites, maxWrites)
	}
	if gotBytes > maxReadBytes {
		t.Errorf("the programs read %d bytes of ConfigMaps, want at most %d", gotBytes, maxReadBytes)
	}
}

// checkFlooded returns an error unless all Subscriptions of a tenant have a status, and only the tenant has
// written its ConfigMaps.
func (f *fixture) checkFlooded(tenant string, want int) error {
	var subscriptions v1alpha1.SubscriptionList
	if err := f.List(f.T.Context(), &subscriptions, client.InNamespace(tenant)); err != nil {
		return err
	}

	got := 0
	for i := range subscriptions.Items {
		if len(subscriptions.Items[i].Status.Conditions) > 0 {
			got++
		}
	}
	if got != want {
		return fmt.Errorf("%d of %d Subscriptions have a status", got, want)
	}

	var configMaps corev1.ConfigMapList
	if err := f.List(f.T.Context(), &configMaps, client.InNamespace(tenant)); err != nil {
		return err
	}
	for i := range configMaps.Items {
		if managers := configMaps.Items[i].ManagedFields; len(managers) != 1 {
			f.T.Fatalf("ConfigMap %s has the field managers %v, want only the tenant's", configMaps.Items[i].Name, managers)
		}
	}

	return nil
}

// meteredTransport counts the bytes of all responses about ConfigMaps.
type meteredTransport struct {
	read *atomic.Int64
	next http.RoundTripper
}

func (t *meteredTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil && strings.Contains(request.URL.Path, "/configmaps") {
		response.Body = &meteredBody{ReadCloser: response.Body, read: t.read}
	}
	return response, err
}

type meteredBody struct {
	io.ReadCloser
	read *atomic.Int64
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	return n, err
}
