package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestOperatorUnderLoad installs the sample operator with OLM Classic in each install mode, and upgrades it while clients
// send requests. One of the operators is moved to OLM v1 under the same load. A version with webhooks and an aggregated API
// is upgraded under load when its OperatorCondition allows it. No request fails.
//
// The catalogs are served without pods. package-server finds them by the name of a Service in the DNS of the cluster.
func TestOperatorUnderLoad(t *testing.T) {
	requirePrograms(t, "devcluster", "mainstay", "hello-operator")
	if !canRunRealNode(t) {
		t.Skip("simulated nodes run no pods")
	}

	o := &operatorFixture{fixture: newFixture(t, true)}
	o.runStep("OLM v1 and OLM Classic are installed", o.installBoth)
	o.runStep("four catalogs are pushed", o.pushOperators)
	o.runStep("1.0.0 is installed in three install modes", o.installModes)
	o.runStep("package-server reaches the catalog by DNS", o.checkCatalogName)
	o.runStep("all are upgraded to 1.1.0 under load", o.upgradeModes)
	o.runStep("one is moved to OLM v1 under load", o.migrateUnderLoad)
	o.runStep("it is removed", o.removeExtension)
	o.runStep("1.2.0 with webhooks and an API is installed for all namespaces", o.installForAll)
	o.runStep("it is upgraded to 1.3.0 under load, when its OperatorCondition allows it", o.upgradeForAll)
}

// modes are the target namespaces of the operators, by their namespaces.
var modes = map[string][]string{"own": {"own"}, "single": {"target-a"}, "multi": {"target-b", "target-c"}}

// installModes installs 1.0.0 for its own namespace, for one and for several, with a Greeting in each target.
func (o *operatorFixture) installModes(ctx context.Context) error {
	if err := o.offerOperators(ctx, "first"); err != nil {
		return err
	}

	var manifests strings.Builder
	for _, name := range []string{"own", "single", "multi", "everywhere", "target-a", "target-b", "target-c"} {
		manifests.WriteString("---\n" + namespaceManifest(name) + "\n")
	}
	if err := o.Apply(ctx, manifests.String()); err != nil {
		return err
	}

	for namespace, targets := range modes {
		if err := o.subscribe(ctx, namespace, targets...); err != nil {
			return err
		}
	}
	for namespace, targets := range modes {
		if err := o.waitForOperator(ctx, namespace, "1.0.0"); err != nil {
			return err
		}
		for _, target := range targets {
			if err := o.Apply(ctx, strings.Replace(greeting, "namespace: default", "namespace: "+target, 1)); err != nil {
				return err
			}
		}
	}

	return o.waitForGreetings(ctx, "Hello")
}

// waitForGreetings waits until each operator has written its word to the Greetings in its targets.
func (o *operatorFixture) waitForGreetings(ctx context.Context, word string) error {
	return o.waitFor(ctx, func(ctx context.Context) error {
		var errs []error
		for _, targets := range modes {
			for _, target := range targets {
				errs = append(errs, o.checkOutput(ctx, word+", world!", "get", "greetings.v1alpha1.hello.example.com", "world", "-n", target, "-o", "jsonpath={.status.message}"))
			}
		}
		return errors.Join(errs...)
	})
}

// checkCatalogName checks that the Service of the catalog is a name in DNS, by which package-server has read the catalog.
func (o *operatorFixture) checkCatalogName(ctx context.Context) error {
	return o.waitFor(ctx, func(ctx context.Context) error {
		return errors.Join(
			o.checkOutput(ctx, "ExternalName catalog-operator-catalogs.olm.svc.cluster.local", "get", "service", "operators", "-n", "olm", "-o", "jsonpath={.spec.type} {.spec.externalName}"),
			o.checkOutput(ctx, "hello-operator.v1.0.0", "get", "packagemanifest", "hello-operator", "-n", "own", "-o", "jsonpath={.status.channels[0].currentCSV}"),
		)
	})
}

func greetingRequests() []request {
	var requests []request
	for namespace, targets := range modes {
		for _, target := range targets {
			requests = append(requests, newGreetingRequest(namespace, target))
		}
	}
	return requests
}

// underLoad calls do while clients send requests.
func (o *operatorFixture) underLoad(ctx context.Context, requests []request, do func(context.Context) error) error {
	load, err := o.startTraffic(ctx, requests...)
	if err != nil {
		return err
	}
	err = do(ctx)
	return errors.Join(err, load.end())
}

func (o *operatorFixture) upgradeModes(ctx context.Context) error {
	err := o.underLoad(ctx, greetingRequests(), func(ctx context.Context) error {
		if err := o.offerOperators(ctx, "second"); err != nil {
			return err
		}
		for namespace := range modes {
			if err := o.waitForOperator(ctx, namespace, "1.1.0"); err != nil {
				return err
			}
		}
		return o.waitForNoTerminatingPod(ctx)
	})
	if err != nil {
		return err
	}
	return o.waitForGreetings(ctx, "Good day")
}

// waitForNoTerminatingPod waits until all pods of former versions have ended.
func (o *operatorFixture) waitForNoTerminatingPod(ctx context.Context) error {
	return o.waitFor(ctx, func(ctx context.Context) error {
		return o.checkOutput(ctx, "", "get", "pods", "-A", "-l", "app.kubernetes.io/name=hello-operator", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}")
	})
}

// migrateUnderLoad moves the operator with one target to OLM v1. A package belongs to one extension, so the other two are
// removed first.
func (o *operatorFixture) migrateUnderLoad(ctx context.Context) error {
	for _, namespace := range []string{"own", "multi"} {
		if _, err := o.Kubectl(ctx, "delete", "subscription.operators.coreos.com,clusterserviceversion,operatorgroup", "-n", namespace, "--all"); err != nil {
			return err
		}
	}
	if _, err := o.Mainstay(ctx, "migrate", "catalogs"); err != nil {
		return err
	}

	pods := []string{"get", "pods", "-n", "single", "-o", "jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{end}"}
	before, err := o.Kubectl(ctx, pods...)
	if err != nil {
		return err
	}
	err = o.underLoad(ctx, []request{newGreetingRequest("single", "target-a")}, func(ctx context.Context) error {
		out, err := o.runWithRegistry(ctx, "migrate", "subscription", "hello", "--namespace", "single")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return o.waitFor(ctx, func(ctx context.Context) error {
			return o.checkOutput(ctx, "1.1.0", "get", "clusterextension", "-o", "jsonpath={.items[*].status.install.bundle.version}")
		})
	})
	if err != nil {
		return err
	}
	if err := o.checkOutput(ctx, before, pods...); err != nil {
		return fmt.Errorf("the pods: %w", err)
	}

	return o.checkOutput(ctx, "", "get", "subscription.operators.coreos.com,clusterserviceversion", "-n", "single", "-o", "name")
}

func (o *operatorFixture) removeExtension(ctx context.Context) error {
	name, err := o.Kubectl(ctx, "get", "clusterextension", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return err
	}
	_, err = o.Mainstay(ctx, "extension", "uninstall", name, "--delete-custom-resources", "--wait", "--timeout", stateTimeout.String())
	return err
}

func (o *operatorFixture) installForAll(ctx context.Context) error {
	if err := o.offerOperators(ctx, "third"); err != nil {
		return err
	}
	if err := o.subscribe(ctx, "everywhere"); err != nil {
		return err
	}
	if err := o.waitForOperator(ctx, "everywhere", "1.2.0"); err != nil {
		return err
	}
	return o.waitFor(ctx, func(ctx context.Context) error {
		return o.checkOutput(ctx, "True Idle", "get", "operatorcondition", "hello-operator.v1.2.0", "-n", "everywhere", "-o",
			`jsonpath={.status.conditions[?(@.type=="Upgradeable")].status} {.status.conditions[?(@.type=="Upgradeable")].reason}`)
	})
}

// upgradeForAll prevents the upgrade by an override of the condition, and then allows it.
func (o *operatorFixture) upgradeForAll(ctx context.Context) error {
	override := func(status string) error {
		_, err := o.Kubectl(ctx, "patch", "operatorcondition", "hello-operator.v1.2.0", "-n", "everywhere", "--type=merge", "-p",
			`{"spec": {"overrides": [{"type": "Upgradeable", "status": "`+status+`", "reason": "Maintenance", "message": "wait"}]}}`)
		return err
	}
	if err := override("False"); err != nil {
		return err
	}

	return o.underLoad(ctx, newAPIRequests(), func(ctx context.Context) error {
		if err := o.offerOperators(ctx, "fourth"); err != nil {
			return err
		}
		err := o.waitFor(ctx, func(ctx context.Context) error {
			return o.checkOutput(ctx, "Pending OperatorConditionNotUpgradeable", "get", "clusterserviceversion", "hello-operator.v1.3.0", "-n", "everywhere", "-o", "jsonpath={.status.phase} {.status.reason}")
		})
		if err != nil {
			return err
		}
		if err := override("True"); err != nil {
			return err
		}
		if err := o.waitForOperator(ctx, "everywhere", "1.3.0"); err != nil {
			return err
		}
		return o.waitForNoTerminatingPod(ctx)
	})
}
