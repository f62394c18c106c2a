package csv_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/serving"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// callInterval is the time between two calls of an aggregated API.
const callInterval = 5 * time.Millisecond

// callAPI calls the aggregated API until stop is called. stop returns how many calls succeeded and failed.
func (f *formerInstallation) callAPI() (stop func() (succeeded, failed int)) {
	f.T.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(env.Start(f.T))
	f.Must(err)
	ctx, cancel := context.WithCancel(f.T.Context())
	var clients sync.WaitGroup
	succeeded, failed := 0, 0
	clients.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(callInterval) {
			if _, err := api.RESTClient().Get().AbsPath("/apis/" + f.group + "/v1").DoRaw(context.WithoutCancel(ctx)); err != nil {
				failed++
			} else {
				succeeded++
			}
		}
	})
	return func() (int, int) {
		cancel()
		clients.Wait()
		return succeeded, failed
	}
}

// A certificate that is about to expire is replaced while clients use the API. The ClusterServiceVersion reports this, and
// succeeds again by itself. Clients reach the API with the new certificate, and it is replaced again a day before it expires.
func TestExpiringCertificate(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFormerInstallation(t, listener)
	f.service, f.secret = "things-service", "things-service-cert"
	f.issuedAt = time.Now().Add(time.Hour - serving.Validity)
	f.createObjects(nil)
	f.serveAPI(listener, "things", f.group)
	f.waitForAPI()

	stop := f.callAPI()
	f.startManager()
	secret := &corev1.Secret{}
	f.eventually("the certificate is replaced", func() bool {
		return f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: f.secret}, secret) == nil &&
			serving.StaleReason(secret, serving.Hosts(f.service, f.namespace), time.Now()) == ""
	})
	api := &apiregistrationv1.APIService{}
	f.eventually("the API server trusts the new authority", func() bool {
		return f.Get(t.Context(), client.ObjectKey{Name: "v1." + f.group}, api) == nil && slices.Equal(api.Spec.CABundle, secret.Data[serving.KeyCA])
	})
	csv := f.waitUntilSucceeded(f.csv.Name, "things")
	succeeded, failed := stop()
	t.Logf("%d calls succeeded, %d failed", succeeded, failed)
	if succeeded == 0 {
		t.Error("no call of the API succeeded")
	}

	if got := conditionHistory(csv); !slices.Contains(got, string(v1alpha1.CSVPhasePending)+"/"+v1alpha1.CSVReasonNeedsCertRotation) {
		t.Errorf("got the phases %q, want one because of the certificate", got)
	}
	if got := csv.Status.CertsRotateAt; got == nil || got.Before(&metav1.Time{Time: time.Now().Add(serving.Validity - 2*serving.RotateBefore)}) {
		t.Errorf("got the rotation at %v, want a day before the certificate expires", got)
	}
}
