package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// scenario is the state that the packages share.
type scenario struct {
	*cluster.Cluster
	observer *clusterObserver
	table    *resultTable
	// initialObjects are the objects that existed at the beginning.
	initialObjects map[string]bool

	mu sync.Mutex
	// dependentBundles are bundles that were refused because of their dependencies.
	dependentBundles []dependentBundle
}

// rolloutTimeout is the timeout of a rollout. On a simulated node it takes a second or two.
const rolloutTimeout = time.Minute

// checkPackage installs every version of a package on its own, and then updates from one to the
// next.
func (s *scenario) checkPackage(ctx context.Context, p *packageVersions) {
	var good []string
	for _, version := range p.versions {
		if ctx.Err() != nil {
			return
		}

		began := time.Now()
		o, reason := s.installAndRemove(ctx, p.name, version.Original())
		s.table.printLine(p.name, version.Original(), o, time.Since(began), reason)
		if o == installed {
			good = append(good, version.Original())
		}

		if o == refused && strings.Contains(reason, missingDependencyText) {
			s.mu.Lock()
			s.dependentBundles = append(s.dependentBundles, dependentBundle{p.name, version.Original()})
			s.mu.Unlock()
		}
	}

	if len(good) > 1 && ctx.Err() == nil {
		s.updateThroughVersions(ctx, p.name, good)
	}

	for _, namespace := range []string{p.name, watchedNamespaceOf(p.name)} {
		if err := s.observer.deleteNamespace(ctx, namespace); err != nil {
			s.table.printLine(p.name, "namespace", unexpected, 0, err.Error())
		}
	}
}

// watchedNamespaceOf returns the watch namespace for extensions that cannot watch their own
// namespace.
func watchedNamespaceOf(name string) string { return name + "-watched" }

// installAndRemove installs a version and removes it.
func (s *scenario) installAndRemove(ctx context.Context, name, version string) (outcome, string) {
	rights, err := s.applyRights(ctx, name, "--version", version)
	if err != nil {
		return s.checkControllerRefuses(ctx, name, version, rights, err)
	}

	prepared := time.Now()
	if _, err := s.Mainstay(ctx, s.installArgs(name, version, rights)...); err != nil {
		return unexpected, err.Error()
	}

	o, reason := s.waitForOutcome(ctx, name, version)
	settled := time.Now()
	if err := s.uninstallWithRights(ctx, name, rights); err != nil {
		return unexpected, err.Error()
	}
	if o == installed {
		reason = fmt.Sprintf("available after %.2f s, removed in %.2f s", settled.Sub(prepared).Seconds(), time.Since(settled).Seconds())
	}

	return o, reason
}

// installRights are the rights with which an extension is installed.
type installRights struct {
	manifest string
	// watchNamespace is the namespace to watch, empty for all.
	watchNamespace string
}

// applyRights applies the rights that `mainstay rbac generate` writes, for the namespaces that
// the bundle can watch.
func (s *scenario) applyRights(ctx context.Context, name string, args ...string) (*installRights, error) {
	r := &installRights{}
	// cert-manager is one of the bundles, but it issues no certificates here.
	args = append([]string{"rbac", "generate", name, "--namespace", name, "--create-namespace", "--cert-manager=false"}, args...)
	manifest, err := s.Mainstay(ctx, args...)
	if advice := errorText(err); strings.Contains(advice, "do not support targeting all namespaces") {
		switch {
		case strings.Contains(advice, `set watchNamespace to "`):
			r.watchNamespace = name
		case strings.Contains(advice, "set watchNamespace to one namespace"):
			r.watchNamespace = watchedNamespaceOf(name)
			if err := s.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+r.watchNamespace+"}\n"); err != nil {
				return r, err
			}
		default:
			return r, err
		}
		manifest, err = s.Mainstay(ctx, append(args, "--watch-namespace", r.watchNamespace)...)
	}

	if err != nil {
		return r, err
	}

	r.manifest = manifest
	return r, s.Apply(ctx, manifest)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (s *scenario) installArgs(name, version string, r *installRights) []string {
	args := []string{"extension", "install", name, "--namespace", name, "--create-namespace", "--version", version, "--check=false"}
	if r.manifest != "" {
		args = append(args, "--service-account", name+"-installer")
	}
	if r.watchNamespace != "" {
		args = append(args, "--watch-namespace", r.watchNamespace)
	}
	return args
}

// checkControllerRefuses checks that the controller refuses a bundle that `mainstay rbac
// generate` has refused. It returns the reason of the conditions.
func (s *scenario) checkControllerRefuses(ctx context.Context, name, version string, r *installRights, refusal error) (outcome, string) {
	if _, err := s.Mainstay(ctx, s.installArgs(name, version, r)...); err != nil {
		return unexpected, err.Error()
	}

	o, reason := s.waitForOutcome(ctx, name, version)
	if err := s.uninstallWithRights(ctx, name, r); err != nil {
		return unexpected, err.Error()
	}
	if o == installed {
		return unexpected, "it is installed, and yet: " + refusal.Error()
	}

	return o, reason
}

// waitForOutcome waits until the extension is installed or refused.
func (s *scenario) waitForOutcome(ctx context.Context, name, version string) (outcome, string) {
	var result outcome
	var reason string
	err := waitFor(ctx, func(ctx context.Context) error {
		extension, err := s.observer.getExtension(ctx, name)
		if err != nil {
			return err
		}
		if result, reason = judgeOutcome(extension, version); result == "" {
			return errors.New(reason)
		}
		return nil
	})
	if err != nil {
		return unexpected, err.Error()
	}

	return result, reason
}

// refusalTexts are parts of messages of refused extensions whose installation is retried. In this
// scenario the retries cannot succeed.
var refusalTexts = []string{
	"authorization evaluation error: ", "no bundles found", "upgrade safety validation",
	missingDependencyText, "the dependencies of bundle",
}

// missingDependencyText is a part of the message for a bundle with missing dependencies.
const missingDependencyText = "dependency declared via property"

// judgeOutcome returns the outcome for an extension and a requested version. It is empty while
// there is no outcome yet; the second result is then the current state.
func judgeOutcome(extension *olmv1.ClusterExtension, version string) (outcome, string) {
	progressing := findCondition(extension.Status.Conditions, olmv1.TypeProgressing)
	if progressing.ObservedGeneration != extension.Generation {
		return "", "it was not looked at yet"
	}

	message := progressing.Message
	switch {
	case progressing.Status == "False":
		return refused, message
	case strings.Contains(message, "requires the following permissions"):
		return unexpected, message
	case slices.ContainsFunc(refusalTexts, func(words string) bool { return strings.Contains(message, words) }):
		return refused, message
	case progressing.Reason != olmv1.ReasonSucceeded:
		return "", progressing.Reason + ": " + message
	}

	if extension.Status.Install == nil || extension.Status.Install.Bundle.Version != version {
		return "", "another version is installed"
	}
	if available := findCondition(extension.Status.Conditions, olmv1.TypeAvailable); available.Status != "True" {
		return "", "not available: " + available.Message
	}

	return installed, ""
}

// uninstallWithRights uninstalls an extension with its rights, and checks that no objects are
// left.
func (s *scenario) uninstallWithRights(ctx context.Context, name string, r *installRights) error {
	return errors.Join(s.uninstallExtension(ctx, name), s.observer.deleteManifest(ctx, r.manifest))
}

// uninstallExtension uninstalls an extension, and checks that no objects are left.
func (s *scenario) uninstallExtension(ctx context.Context, name string) error {
	if _, err := s.Mainstay(ctx, "extension", "uninstall", name, "--delete-custom-resources"); err != nil {
		return err
	}

	err := waitFor(ctx, func(ctx context.Context) error {
		extension, err := s.observer.getExtension(ctx, name)
		if err == nil {
			err = fmt.Errorf("it is not removed: %s", findCondition(extension.Status.Conditions, olmv1.TypeProgressing).Message)
		}
		return client.IgnoreNotFound(err)
	})
	if err != nil {
		return errors.Join(err, s.touchTerminatingCRDs(ctx, name))
	}
	return waitFor(ctx, func(ctx context.Context) error {
		left, err := s.observer.listOwnedObjects(ctx, name)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left behind: %s", strings.Join(left, ", "))
		}
		return err
	})
}

// touchTerminatingCRDs touches the CRDs that are being deleted, so that the API server processes
// them again. It waits for the removal of the extension, so that the scenario can continue.
func (s *scenario) touchTerminatingCRDs(ctx context.Context, name string) error {
	touched, err := s.observer.touchTerminating(ctx)
	if err != nil {
		return err
	}

	err = waitFor(ctx, func(ctx context.Context) error {
		_, err := s.observer.getExtension(ctx, name)
		if err == nil {
			err = errors.New("it is still not removed")
		}
		return client.IgnoreNotFound(err)
	})

	return errors.Join(fmt.Errorf("CRDs that were being deleted were touched: %s", strings.Join(touched, "; ")), err)
}

// checkNothingLeft compares the objects of the cluster with those at the beginning.
func (s *scenario) checkNothingLeft(ctx context.Context) {
	began := time.Now()
	err := waitFor(ctx, func(ctx context.Context) error {
		names, err := s.observer.listStableObjects(ctx)
		if err != nil {
			return err
		}

		var more []string
		for name := range names {
			if !s.initialObjects[name] {
				more = append(more, name)
			}
		}

		if len(more) > 0 {
			slices.Sort(more)
			return fmt.Errorf("left behind: %s", strings.Join(more, ", "))
		}

		return nil
	})
	if err != nil {
		s.table.printLine("(all)", "", unexpected, time.Since(began), err.Error())
	}
}

// patchExtensionSpec patches the spec of an extension.
func (s *scenario) patchExtensionSpec(ctx context.Context, name string, edit func(*olmv1.ClusterExtensionSpec)) error {
	extension, err := s.observer.getExtension(ctx, name)
	if err != nil {
		return err
	}
	before := extension.DeepCopy()
	edit(&extension.Spec)
	return s.observer.Patch(ctx, extension, client.MergeFrom(before))
}
