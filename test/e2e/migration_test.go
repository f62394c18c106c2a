package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// TestMigrationUnderLoad moves an operator with webhooks from OLM Classic to OLM v1, back, and again, while clients
// send requests to its Service, to its webhooks and for its custom resources. No request fails, and no pod restarts.
func TestMigrationUnderLoad(t *testing.T) {
	requirePrograms(t, "devcluster", "mainstay", "hello-operator")
	if !canRunRealNode(t) {
		t.Skip("simulated nodes run no pods")
	}

	o := &operatorFixture{fixture: newFixture(t, true)}
	var before string
	o.runStep("OLM v1 and OLM Classic are installed", o.installBoth)
	o.runStep("a catalog is pushed", o.pushWebhookOperator)
	o.runStep("the operator is installed with OLM Classic", o.installWebhookOperator)
	o.runStep("its pods are read", func(ctx context.Context) (err error) {
		before, err = o.readPods(ctx)
		return err
	})
	o.runStep("it is moved to OLM v1 under load", func(ctx context.Context) error {
		return o.moveUnderLoad(ctx, before, o.moveToExtension)
	})
	o.runStep("it is moved back under load", func(ctx context.Context) error {
		return o.moveUnderLoad(ctx, before, o.moveToSubscription)
	})
	o.runStep("it is moved again, and confirmed, under load", func(ctx context.Context) error {
		return o.moveUnderLoad(ctx, before, func(ctx context.Context) error {
			if err := o.moveToExtension(ctx); err != nil {
				return err
			}
			return o.migrate(ctx, "--confirm")
		})
	})
}

// pushWebhookOperator pushes a catalog with the version of the sample operator that has webhooks of all kinds.
func (o *operatorFixture) pushWebhookOperator(ctx context.Context) error {
	const version = "1.2.0"
	if _, err := o.runWithRegistry(ctx, "image", "build", "--binary", filepath.Join(o.root, "bin", "hello-operator"), "--push", o.operatorImage()+":v"+version); err != nil {
		return err
	}
	dir := filepath.Join(o.dir, "operators")
	if err := cluster.CopyExample(filepath.Join(o.root, "examples"), dir, o.operatorImage(), "1.0.0", "1.1.0", version); err != nil {
		return err
	}
	_, err := o.runWithRegistry(ctx, "catalog", "build", dir, "--push", o.operatorCatalog("webhooks"))
	return err
}

// installWebhookOperator subscribes to the operator for all namespaces, creates a Greeting, and creates the
// ClusterCatalog that the migration needs.
func (o *operatorFixture) installWebhookOperator(ctx context.Context) error {
	if err := o.offerOperators(ctx, "webhooks"); err != nil {
		return err
	}
	if err := o.Apply(ctx, namespaceManifest("hello")); err != nil {
		return err
	}
	if err := o.subscribe(ctx, "hello"); err != nil {
		return err
	}
	if err := o.waitForOperator(ctx, "hello", "1.2.0"); err != nil {
		return err
	}
	if err := o.Apply(ctx, greeting); err != nil {
		return err
	}
	_, err := o.Mainstay(ctx, "migrate", "catalogs")
	return err
}

// readPods returns the UIDs and restart counts of the pods of the operator.
func (o *operatorFixture) readPods(ctx context.Context) (string, error) {
	pods, err := o.Kubectl(ctx, "get", "pods", "-n", "hello", "-o", "jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{end}")
	if err == nil && !strings.HasSuffix(strings.TrimSpace(pods), " 0") {
		err = fmt.Errorf("got pods %q, want one that has not restarted", pods)
	}
	return pods, err
}

// moveUnderLoad moves the operator while clients send requests, and checks that its pods are not replaced.
func (o *operatorFixture) moveUnderLoad(ctx context.Context, before string, move func(context.Context) error) error {
	requests := append(newWebhookRequests(), newGreetingRequest("hello", "default"), request{"custom resources", func(ctx context.Context, client rest.Interface) error {
		return expectContent(ctx, client.Get().AbsPath("/apis/hello.example.com/v1beta1/greetings"), `"name":"world"`)
	}})
	if err := o.underLoad(ctx, requests, move); err != nil {
		return err
	}

	after, err := o.readPods(ctx)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("got pods %q, want %q as before", after, before)
	}
	return nil
}

// migrate runs mainstay migrate subscription.
func (o *operatorFixture) migrate(ctx context.Context, args ...string) error {
	out, err := o.runWithRegistry(ctx, append([]string{"migrate", "subscription", "hello", "--namespace", "hello"}, args...)...)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// moveToExtension moves the operator to OLM v1, and checks that OLM Classic has left nothing.
func (o *operatorFixture) moveToExtension(ctx context.Context) error {
	if err := o.migrate(ctx); err != nil {
		return err
	}
	if err := o.checkOutput(ctx, "1.2.0", "get", "clusterextension", "hello", "-o", "jsonpath={.status.install.bundle.version}"); err != nil {
		return err
	}
	return o.checkOutput(ctx, "", "get", "subscription.operators.coreos.com,clusterserviceversion", "-n", "hello", "-o", "name")
}

// moveToSubscription moves the operator back to OLM Classic, and checks that OLM v1 has left nothing.
func (o *operatorFixture) moveToSubscription(ctx context.Context) error {
	if err := o.migrate(ctx, "--rollback", "--acknowledge", "installed-extension"); err != nil {
		return err
	}
	if err := o.waitForOperator(ctx, "hello", "1.2.0"); err != nil {
		return err
	}
	return o.checkOutput(ctx, "", "get", "clusterextension,clusterobjectset", "-o", "name")
}
