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

// scenario is what the packages share.
type scenario struct {
	*cluster.Cluster
	observer *observer
	table    *table
	// before are the objects that there were at the beginning.
	before map[string]bool

	mu sync.Mutex
	// needy are bundles that were refused for what they need of others.
	needy []needy
}

// limit is how long a roll-out may take: on a simulated node it is a second or two.
const limit = time.Minute

// look installs every version of a package on its own, and then updates from one to the
// next.
func (s *scenario) look(ctx context.Context, p *pkg) {
	var good []string
	for _, version := range p.versions {
		if ctx.Err() != nil {
			return
		}

		began := time.Now()
		o, reason := s.bundle(ctx, p.name, version.Original())
		s.table.line(p.name, version.Original(), o, time.Since(began), reason)
		if o == installed {
			good = append(good, version.Original())
		}

		if o == refused && strings.Contains(reason, lacksDependencies) {
			s.mu.Lock()
			s.needy = append(s.needy, needy{p.name, version.Original()})
			s.mu.Unlock()
		}
	}

	if len(good) > 1 && ctx.Err() == nil {
		s.walk(ctx, p.name, good)
	}

	for _, namespace := range []string{p.name, watched(p.name)} {
		if err := s.observer.deleteNamespace(ctx, namespace); err != nil {
			s.table.line(p.name, "namespace", surprise, 0, err.Error())
		}
	}
}

// watched is the namespace that extensions watch which cannot watch their own.
func watched(name string) string { return name + "-watched" }

// bundle installs a version and removes it.
func (s *scenario) bundle(ctx context.Context, name, version string) (outcome, string) {
	rights, err := s.prepare(ctx, name, "--version", version)
	if err != nil {
		return s.refusedAlso(ctx, name, version, rights, err)
	}

	prepared := time.Now()
	if _, err := s.Mainstay(ctx, s.install(name, version, rights)...); err != nil {
		return surprise, err.Error()
	}

	o, reason := s.settle(ctx, name, version)
	settled := time.Now()
	if err := s.uninstall(ctx, name, rights); err != nil {
		return surprise, err.Error()
	}
	if o == installed {
		reason = fmt.Sprintf("available after %.2f s, removed in %.2f s", settled.Sub(prepared).Seconds(), time.Since(settled).Seconds())
	}

	return o, reason
}

// rights are what an extension is installed with.
type rights struct {
	manifest string
	// watch is the namespace to watch, empty for all.
	watch string
}

// prepare writes the rights as `mainstay rbac generate` has them, for the namespaces that
// the bundle can watch.
func (s *scenario) prepare(ctx context.Context, name string, args ...string) (*rights, error) {
	r := &rights{}
	// cert-manager, one of the bundles, is turned off: it is not to be taken for one that issues.
	args = append([]string{"rbac", "generate", name, "--namespace", name, "--create-namespace", "--cert-manager=false"}, args...)
	manifest, err := s.Mainstay(ctx, args...)
	if advice := textOf(err); strings.Contains(advice, "do not support targeting all namespaces") {
		switch {
		case strings.Contains(advice, `set watchNamespace to "`):
			r.watch = name
		case strings.Contains(advice, "set watchNamespace to one namespace"):
			r.watch = watched(name)
			if err := s.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+r.watch+"}\n"); err != nil {
				return r, err
			}
		default:
			return r, err
		}
		manifest, err = s.Mainstay(ctx, append(args, "--watch-namespace", r.watch)...)
	}

	if err != nil {
		return r, err
	}

	r.manifest = manifest
	return r, s.Apply(ctx, manifest)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (s *scenario) install(name, version string, r *rights) []string {
	args := []string{"extension", "install", name, "--namespace", name, "--create-namespace", "--version", version, "--check=false"}
	if r.manifest != "" {
		args = append(args, "--service-account", name+"-installer")
	}
	if r.watch != "" {
		args = append(args, "--watch-namespace", r.watch)
	}
	return args
}

// refusedAlso makes sure that the controller refuses what `mainstay rbac generate`
// refused, and gives the reason that its conditions have.
func (s *scenario) refusedAlso(ctx context.Context, name, version string, r *rights, refusal error) (outcome, string) {
	if _, err := s.Mainstay(ctx, s.install(name, version, r)...); err != nil {
		return surprise, err.Error()
	}

	o, reason := s.settle(ctx, name, version)
	if err := s.uninstall(ctx, name, r); err != nil {
		return surprise, err.Error()
	}
	if o == installed {
		return surprise, "it is installed, and yet: " + refusal.Error()
	}

	return o, reason
}

// settle waits until the extension is installed or refused.
func (s *scenario) settle(ctx context.Context, name, version string) (outcome, string) {
	var result outcome
	var reason string
	err := eventually(ctx, func(ctx context.Context) error {
		extension, err := s.observer.extension(ctx, name)
		if err != nil {
			return err
		}
		if result, reason = judge(extension, version); result == "" {
			return errors.New(reason)
		}
		return nil
	})
	if err != nil {
		return surprise, err.Error()
	}

	return result, reason
}

// refusals are words of messages by which an extension is refused though it is tried
// again: what it lacks may come, but not in this scenario.
var refusals = []string{
	"authorization evaluation error: ", "no bundles found", "upgrade safety validation",
	lacksDependencies, "the dependencies of bundle",
}

// lacksDependencies are words of the message of a bundle that needs what is not there.
const lacksDependencies = "dependency declared via property"

// judge says what has become of an extension that shall have a version. It is nothing
// while it is still becoming.
func judge(extension *olmv1.ClusterExtension, version string) (outcome, string) {
	progressing := find(extension.Status.Conditions, olmv1.TypeProgressing)
	if progressing.ObservedGeneration != extension.Generation {
		return "", "it was not looked at yet"
	}

	message := progressing.Message
	switch {
	case progressing.Status == "False":
		return refused, message
	case strings.Contains(message, "requires the following permissions"):
		return surprise, message
	case slices.ContainsFunc(refusals, func(words string) bool { return strings.Contains(message, words) }):
		return refused, message
	case progressing.Reason != olmv1.ReasonSucceeded:
		return "", progressing.Reason + ": " + message
	}

	if extension.Status.Install == nil || extension.Status.Install.Bundle.Version != version {
		return "", "another version is installed"
	}
	if available := find(extension.Status.Conditions, olmv1.TypeAvailable); available.Status != "True" {
		return "", "not available: " + available.Message
	}

	return installed, ""
}

// uninstall removes an extension and its rights, and looks whether anything of it stays.
func (s *scenario) uninstall(ctx context.Context, name string, r *rights) error {
	return errors.Join(s.vanish(ctx, name), s.observer.remove(ctx, r.manifest))
}

// vanish removes an extension, and looks whether anything of it stays.
func (s *scenario) vanish(ctx context.Context, name string) error {
	if _, err := s.Mainstay(ctx, "extension", "uninstall", name, "--delete-custom-resources"); err != nil {
		return err
	}

	err := eventually(ctx, func(ctx context.Context) error {
		extension, err := s.observer.extension(ctx, name)
		if err == nil {
			err = fmt.Errorf("it is not removed: %s", find(extension.Status.Conditions, olmv1.TypeProgressing).Message)
		}
		return client.IgnoreNotFound(err)
	})
	if err != nil {
		return errors.Join(err, s.unstick(ctx, name))
	}
	return eventually(ctx, func(ctx context.Context) error {
		left, err := s.observer.owned(ctx, name)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left behind: %s", strings.Join(left, ", "))
		}
		return err
	})
}

// unstick touches the CRDs that are being deleted, so that the API server looks at them
// again, and waits for the removal: what comes after can be looked at too.
func (s *scenario) unstick(ctx context.Context, name string) error {
	touched, err := s.observer.touchTerminating(ctx)
	if err != nil {
		return err
	}

	err = eventually(ctx, func(ctx context.Context) error {
		_, err := s.observer.extension(ctx, name)
		if err == nil {
			err = errors.New("it is still not removed")
		}
		return client.IgnoreNotFound(err)
	})

	return errors.Join(fmt.Errorf("CRDs that were being deleted were touched: %s", strings.Join(touched, "; ")), err)
}

// nothingLeft compares the cluster with what it was at the beginning.
func (s *scenario) nothingLeft(ctx context.Context) {
	began := time.Now()
	err := eventually(ctx, func(ctx context.Context) error {
		names, err := s.observer.names(ctx)
		if err != nil {
			return err
		}

		var more []string
		for name := range names {
			if !s.before[name] {
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
		s.table.line("(all)", "", surprise, time.Since(began), err.Error())
	}
}

// change writes what an extension shall be.
func (s *scenario) change(ctx context.Context, name string, edit func(*olmv1.ClusterExtensionSpec)) error {
	extension, err := s.observer.extension(ctx, name)
	if err != nil {
		return err
	}
	before := extension.DeepCopy()
	edit(&extension.Spec)
	return s.observer.Patch(ctx, extension, client.MergeFrom(before))
}
