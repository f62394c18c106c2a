package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	controller "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/bench/generate"
)

const (
	// classicFleetSize is the number of operators that are installed at once in as many namespaces.
	classicFleetSize = 50
	// namespaceFleetSize is the number of operators that are installed at once in one namespace.
	namespaceFleetSize = 20
	// namespaceCatalogSize is the number of bundles of the catalog for the latter.
	namespaceCatalogSize = 4000
)

// runClassic runs a measurement on a new server with a catalog of operators. Generated packages are
// added to the catalog until it has the given size.
func runClassic(ctx context.Context, dir string, operators, bundles int, measure func(context.Context, *classicServer) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	home := filepath.Join(dir, "classic")
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	catalog := filepath.Join(home, "catalog")
	if err := writeOperatorCatalog(catalog, operators); err != nil {
		return err
	}
	if bundles > operators {
		size := generate.Size{Packages: generate.MB75.Packages - operators, Bundles: bundles - operators}
		if _, err := generate.Catalog(catalog, size); err != nil {
			return err
		}
	}

	c, err := startClassic(ctx, home, catalog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stopAll()) }()
	return measure(ctx, c)
}

// measureClassicOne measures one Subscription at a time, each in a namespace of its own.
func measureClassicOne(ctx context.Context, dir string, runs int) error {
	return runClassic(ctx, dir, runs+1, 0, func(ctx context.Context, c *classicServer) error {
		var seconds, requests, byServer samples
		// The first installation fills the caches and is not counted.
		for i := range runs + 1 {
			word := operatorWord(i)
			if err := errors.Join(c.createNamespaces(ctx, word), c.createGroup(ctx, word, word)); err != nil {
				return err
			}
			sleepContext(ctx, time.Second)
			took, used, err := c.measureUsage(ctx, func() error {
				if err := c.client.Create(ctx, newSubscription(word, word)); err != nil {
					return err
				}
				return c.waitForSucceeded(ctx, i+1)
			})
			if err != nil {
				return err
			}
			if i > 0 {
				seconds, requests, byServer = append(seconds, took), append(requests, used.requests.total), append(byServer, used.requests.byServer)
			}
		}

		seconds.printSummary("a Subscription, created until its operator has succeeded", "s", 2)
		requests.printSummary("  requests to the API server", "", 0)
		byServer.printSummary("  requests of the API server itself", "", 0)
		return nil
	})
}

// measureClassicFleet measures many Subscriptions in as many namespaces, and the servers at rest after
// that.
func measureClassicFleet(ctx context.Context, dir string, _ int) error {
	return runClassic(ctx, dir, classicFleetSize, 0, func(ctx context.Context, c *classicServer) error {
		var words []string
		for i := range classicFleetSize {
			words = append(words, operatorWord(i))
		}
		err := c.createNamespaces(ctx, words...)
		if err == nil {
			err = forEach(ctx, words, func(ctx context.Context, word string) error { return c.createGroup(ctx, word, word) })
		}
		if err != nil {
			return err
		}

		sleepContext(ctx, idleSettleTime)
		seconds, used, err := c.measureUsage(ctx, func() error {
			err := forEach(ctx, words, func(ctx context.Context, word string) error { return c.client.Create(ctx, newSubscription(word, word)) })
			if err != nil {
				return err
			}
			return c.waitForSucceeded(ctx, classicFleetSize)
		})
		if err != nil {
			return err
		}

		fmt.Printf("%-62s %10.2f s\n", fmt.Sprintf("%d Subscriptions in as many namespaces, until all succeeded", classicFleetSize), seconds)
		used.printRequests(classicFleetSize)
		return c.measureRest(ctx)
	})
}

// measureUsage returns how long work takes, and what the servers use from its start until they are at rest after it.
func (c *classicServer) measureUsage(ctx context.Context, work func() error) (seconds float64, used classicUsage, err error) {
	before, err := c.readUsage(ctx)
	if err != nil {
		return 0, used, err
	}

	began := time.Now()
	if err := work(); err != nil {
		return 0, used, err
	}

	seconds = secondsSince(began)
	sleepContext(ctx, idleSettleTime)
	after, err := c.readUsage(ctx)
	return seconds, after.usageSince(before), err
}

// measureRest prints the requests and the processor time of the servers at rest.
func (c *classicServer) measureRest(ctx context.Context) error {
	sleepContext(ctx, idleMeasureTime) // What follows the installation has ended.
	before, err := c.readUsage(ctx)
	if err != nil {
		return err
	}

	sleepContext(ctx, idleMeasureTime)
	after, err := c.readUsage(ctx)
	if err != nil {
		return err
	}

	used := after.usageSince(before)
	fmt.Printf("%-62s %10.0f a minute\n", "  requests to the API server at rest, but for leases", used.requests.total*60/idleMeasureTime.Seconds())
	fmt.Printf("%-62s %10.2f %% of a core\n", "  processor at rest", 100*(used.olm+used.catalog)/idleMeasureTime.Seconds())
	return nil
}

// measureClassicNamespace measures many Subscriptions in one namespace, with a large catalog.
func measureClassicNamespace(ctx context.Context, dir string, _ int) error {
	return runClassic(ctx, dir, namespaceFleetSize+1, namespaceCatalogSize, func(ctx context.Context, c *classicServer) error {
		// The first operator makes the servers read the catalog.
		first := operatorWord(namespaceFleetSize)
		err := errors.Join(c.createNamespaces(ctx, first, "bench"), c.createGroup(ctx, first, first), c.createGroup(ctx, "bench", "bench"),
			c.client.Create(ctx, newSubscription(first, first)), c.waitForSucceeded(ctx, 1))
		if err != nil {
			return err
		}

		var words []string
		for i := range namespaceFleetSize {
			words = append(words, operatorWord(i))
		}

		sleepContext(ctx, idleSettleTime)
		planned := 0.0
		seconds, used, err := c.measureUsage(ctx, func() error {
			began := time.Now()
			group, waiting := errgroup.WithContext(ctx)
			group.Go(func() error {
				err := c.waitForPlans(waiting, "bench", namespaceFleetSize)
				planned = secondsSince(began)
				return err
			})
			err := forEach(ctx, words, func(ctx context.Context, word string) error {
				return c.client.Create(ctx, newSubscription("bench", word))
			})
			return errors.Join(err, c.waitForSucceeded(ctx, namespaceFleetSize+1), group.Wait())
		})
		if err != nil {
			return err
		}

		what := fmt.Sprintf("%d Subscriptions in one namespace, with %d bundles", namespaceFleetSize, namespaceCatalogSize)
		fmt.Printf("%-62s %10.2f s until planned, %.2f s until all succeeded\n", what, planned, seconds)
		used.printRequests(namespaceFleetSize)
		return nil
	})
}

// waitForPlans watches the Subscriptions of a namespace until some have an InstallPlan.
func (c *classicServer) waitForPlans(ctx context.Context, namespace string, count int) error {
	watcher, err := c.client.Watch(ctx, &v1alpha1.SubscriptionList{}, controller.InNamespace(namespace))
	if err != nil {
		return err
	}
	defer watcher.Stop()
	planned := map[string]bool{}
	for len(planned) < count {
		select {
		case event, ok := <-watcher.ResultChan():
			if !ok {
				return errors.New("the watch of Subscriptions ended")
			}
			if sub, ok := event.Object.(*v1alpha1.Subscription); ok && sub.Status.InstallPlanRef != nil {
				planned[sub.Name] = true
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d Subscriptions have an InstallPlan: %w", len(planned), count, ctx.Err())
		}
	}

	return nil
}

// forEach calls do for each name, several at a time.
func forEach(ctx context.Context, names []string, do func(context.Context, string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fleetWriters)
	for _, name := range names {
		group.Go(func() error { return do(ctx, name) })
	}
	return group.Wait()
}
