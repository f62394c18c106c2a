package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	controller "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

const (
	// restartOperators are copied into each of restartNamespaces. restartSingleOperators of these namespaces have an
	// operator of their own.
	restartOperators       = 20
	restartNamespaces      = 1000
	restartSingleOperators = 480
	// changedName is the display name of an operator or a copy that was changed while olm-operator was not running.
	changedName = "changed"
)

// measureClassicRestart measures the memory of olm-operator for many copied CSVs, and how long it needs after a restart to
// reconcile the changes that were made meanwhile.
func measureClassicRestart(ctx context.Context, dir string, _ int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	home := filepath.Join(dir, "restart")
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	c, err := startClassicControlPlane(ctx, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stopAll()) }()

	targets, err := c.createCopyNamespaces(ctx, restartNamespaces)
	if err != nil {
		return err
	}
	if err := c.startOLMOperator(ctx); err != nil {
		return err
	}
	singles := targets[:restartSingleOperators]
	err = forEach(ctx, singles, func(ctx context.Context, namespace string) error {
		return errors.Join(c.createGroup(ctx, namespace, namespace), c.client.Create(ctx, newSingleCSV(namespace)))
	})
	if err == nil {
		err = c.waitForSucceeded(ctx, len(singles))
	}
	if err != nil {
		return err
	}

	if err := c.restartOLMOperator(ctx, func() error { return nil }); err != nil {
		return err
	}
	_, base, err := readProcessMemory(c.olm.processID())
	if err != nil {
		return err
	}
	if err := c.createCopiedOperators(ctx, restartOperators); err != nil {
		return err
	}
	if err := c.printCopyMemory("after all were created", base); err != nil {
		return err
	}

	return c.measureRestart(ctx, targets, base)
}

// restartTimeout is the timeout for measuring a restart, most of which is the creation of the copies.
const restartTimeout = 2 * fleetTimeout

// restartOLMOperator stops olm-operator, calls meanwhile, and starts it again. It returns when olm-operator is ready and
// has had time to become idle.
func (c *classicServer) restartOLMOperator(ctx context.Context, meanwhile func() error) error {
	err := errors.Join(c.olm.stopProgram(), meanwhile())
	if err == nil {
		err = c.startOLMOperator(ctx)
	}
	sleepContext(ctx, idleSettleTime)
	return err
}

// printCopyMemory prints the anonymous memory of olm-operator above what it has without copies.
func (c *classicServer) printCopyMemory(when string, base float64) error {
	_, anonymous, err := readProcessMemory(c.olm.processID())
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d operators copied into %d namespaces, %s", restartOperators, restartNamespaces, when)
	fmt.Printf("%-62s %10.0f MB of anonymous memory, %.0f MB without copies\n", what, anonymous, base)
	return nil
}

// measureRestart makes changes while olm-operator is not running, and measures how long it needs after its start until
// they are reconciled.
func (c *classicServer) measureRestart(ctx context.Context, targets []string, base float64) error {
	if err := c.olm.stopProgram(); err != nil {
		return err
	}
	open, err := c.changeWhileStopped(ctx, targets)
	if err != nil {
		return err
	}
	before, err := c.countForeignRequests(ctx)
	if err != nil {
		return err
	}

	began := time.Now()
	if err := c.startOLMOperator(ctx); err != nil {
		return err
	}
	ready := secondsSince(began)
	err = pollUntil(ctx, func(ctx context.Context) (bool, error) {
		for len(open) > 0 {
			if ok, err := open[0](ctx); !ok || err != nil {
				return false, err
			}
			open = open[1:]
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	caughtUp := secondsSince(began)

	sleepContext(ctx, idleMeasureTime)
	used, err := readProcessorSeconds(c.olm.processID())
	if err != nil {
		return err
	}
	after, err := c.countForeignRequests(ctx)
	if err != nil {
		return err
	}

	fmt.Printf("%-62s %10.2f s until ready, %.2f s until caught up, processor time %.2f s, %.0f requests\n",
		"  olm-operator restarted with these copies", ready, caughtUp, used, after.requestsSince(before).total)
	return c.printCopyMemory("after a restart", base)
}

// changeWhileStopped deletes a copy of each operator and edits another one, creates an operator in a namespace of its own,
// and creates a namespace. It returns predicates that report whether olm-operator has reconciled these changes.
func (c *classicServer) changeWhileStopped(ctx context.Context, targets []string) ([]func(context.Context) (bool, error), error) {
	var open []func(context.Context) (bool, error)
	for i := range restartOperators {
		deleted, edited := newCopyCSV(targets[i], i), newCopyCSV(targets[restartOperators+i], i)
		err := errors.Join(c.client.Delete(ctx, deleted), c.client.Get(ctx, controller.ObjectKeyFromObject(edited), edited))
		edited.Spec.DisplayName = changedName
		if err == nil {
			err = c.client.Update(ctx, edited)
		}
		if err != nil {
			return nil, err
		}
		open = append(open, c.newSucceededCheck(deleted), c.newSucceededCheck(edited), c.newSucceededCheck(newCopyCSV(lateNamespace, i)))
	}

	own := targets[restartSingleOperators]
	err := errors.Join(c.createNamespaces(ctx, lateNamespace), c.createGroup(ctx, own, own), c.client.Create(ctx, newSingleCSV(own)))
	return append(open, c.newSucceededCheck(newSingleCSV(own))), err
}

// lateNamespace is the namespace that is created while olm-operator is not running.
const lateNamespace = "late"

// newSucceededCheck returns a predicate that reports whether a ClusterServiceVersion exists, was not edited, and has
// succeeded.
func (c *classicServer) newSucceededCheck(csv *v1alpha1.ClusterServiceVersion) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		found := &v1alpha1.ClusterServiceVersion{}
		err := c.client.Get(ctx, controller.ObjectKeyFromObject(csv), found)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && found.Spec.DisplayName != changedName && found.Status.Phase == v1alpha1.CSVPhaseSucceeded, err
	}
}

// newSingleCSV returns a ClusterServiceVersion for one namespace.
func newSingleCSV(namespace string) *v1alpha1.ClusterServiceVersion {
	csv := newCopyCSV(namespace, 0)
	csv.Name = "single.v1.0.0"
	csv.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
	return csv
}
