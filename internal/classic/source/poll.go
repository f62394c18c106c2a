package source

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

// pollAction is what is to be done next to find out whether an image reference stands for another
// image by now.
type pollAction int

const (
	// pollRest: nothing, until something changes or a poll is due.
	pollRest pollAction = iota
	// pollBegin: run a pod of the reference, beside the one that serves.
	pollBegin
	// pollGiveUp: that pod shows nothing, and will not.
	pollGiveUp
	// pollDiscard: it shows the image that serves already, or nobody waits for it any more.
	pollDiscard
	// pollPromote: it shows another image, and is to serve.
	pollPromote
)

// decidePoll says what to do, from the pods that serve a catalog and the one that shows its image,
// nil for none.
func decidePoll(due bool, update *corev1.Pod, wanted *corev1.Pod, serving []corev1.Pod) pollAction {
	if update == nil {
		if due {
			return pollBegin
		}
		return pollRest
	}

	verdict := objects.JudgePod(update, wanted)
	switch {
	case verdict == objects.Leave:
		return pollRest
	case verdict == objects.Bury, objects.IsBroken(update):
		return pollGiveUp
	case verdict == objects.Replace:
		return pollDiscard // The catalog has changed meanwhile.
	case !objects.IsReady(update) && due:
		return pollGiveUp // It had all the time until the next poll.
	case !objects.IsReady(update):
		return pollRest
	}

	shown, isOther := objects.ImageID(update), false
	for _, pod := range serving {
		serves := objects.ImageID(&pod)
		if shown == "" || serves == "" {
			continue // Nobody knows.
		}
		isOther = isOther || shown != serves
	}

	if isOther {
		return pollPromote
	}

	return pollDiscard
}

// poll finds out from time to time whether the image reference of a catalog stands for another
// image, and has that one serve.
func (r *reconciler) poll(ctx context.Context, catalog *v1alpha1.CatalogSource) error {
	c, err := r.described(ctx, catalog)
	if err != nil {
		return registryError(err)
	}

	updates, err := r.pods(ctx, r.client, c, objects.LabelUpdate)
	if err != nil {
		return registryError(err)
	}

	if !polls(catalog) {
		r.failedPolls.forget(client.ObjectKeyFromObject(catalog))
		if err := r.deletePods(ctx, graceReplaced, updates); err != nil {
			return registryError(err)
		}
		return nil
	}

	noteBegun(catalog, updates)
	due := !r.clock.Now().Before(pollDue(catalog))
	if len(updates) == 0 && !due {
		return nil
	}

	if len(updates) == 0 {
		// The one that was just made may not have been seen yet.
		if updates, err = r.pods(ctx, r.reader, c, objects.LabelUpdate); err != nil {
			return registryError(err)
		}
	}

	if err := r.act(ctx, c, due, updates); err != nil {
		return registryError(err)
	}

	return nil
}

// noteBegun writes when the latest poll began, where the status that was to say it was lost.
func noteBegun(catalog *v1alpha1.CatalogSource, updates []corev1.Pod) {
	for i := range updates {
		if last := catalog.Status.LatestImageRegistryPoll; last == nil || last.Before(&updates[i].CreationTimestamp) {
			begun := updates[i].CreationTimestamp
			catalog.Status.LatestImageRegistryPoll = &begun
		}
	}
}

// act does what a poll needs next.
func (r *reconciler) act(ctx context.Context, c *objects.Catalog, due bool, updates []corev1.Pod) error {
	wanted, err := c.UpdatePod()
	if err != nil {
		return err
	}

	serving, err := r.pods(ctx, r.client, c, objects.LabelCatalog)
	if err != nil {
		return err
	}

	var update *corev1.Pod
	if len(updates) > 0 {
		update = &updates[0]
		// There is one, unless a label was set by hand.
		if err := r.deletePods(ctx, graceReplaced, updates[1:]); err != nil {
			return err
		}
	}

	key := client.ObjectKeyFromObject(c.CatalogSource)
	switch decidePoll(due, update, wanted, serving) {
	case pollBegin:
		if err := r.create(ctx, wanted); err != nil {
			return fmt.Errorf("making the pod that shows the image: %w", err)
		}
		now := r.now()
		c.Status.LatestImageRegistryPoll = &now

	case pollGiveUp:
		r.failedPolls.note(key, gaveUp(update))
		return r.deletePods(ctx, graceGone, updates[:1])
	case pollDiscard:
		r.failedPolls.forget(key)
		return r.deletePods(ctx, graceReplaced, updates[:1])
	case pollPromote:
		r.failedPolls.forget(key)
		return r.promote(ctx, c, update, serving)
	case pollRest:
	}

	return nil
}

// gaveUp says why a poll has failed.
func gaveUp(update *corev1.Pod) string {
	text := fmt.Sprintf("%supdate pod %s in a %s state: deleted update pod", notEnsured, update.Name, update.Status.Phase)
	if problem := objects.Problem(update); problem != "" {
		text += "; " + problem
	}
	return text
}

// failedPolls are the catalogs whose latest poll has failed, and why. That holds until one goes
// well: an old catalog is served meanwhile.
type failedPolls struct {
	mu  sync.Mutex
	why map[types.NamespacedName]string
}

func (f *failedPolls) note(catalog types.NamespacedName, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == nil {
		f.why = map[types.NamespacedName]string{}
	}
	f.why[catalog] = why
}

func (f *failedPolls) forget(catalog types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.why, catalog)
}

// of returns why the latest poll of a catalog has failed. It is empty when it has not.
func (f *failedPolls) of(catalog types.NamespacedName) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why[catalog]
}

// promote has the pod that shows another image serve, and deletes those that did.
func (r *reconciler) promote(ctx context.Context, c *objects.Catalog, update *corev1.Pod, serving []corev1.Pod) error {
	labels := corev1ac.Pod(update.Name, update.Namespace).
		WithUID(update.UID).
		WithLabels(map[string]string{objects.LabelCatalog: c.Name, objects.LabelUpdate: ""})
	if err := r.client.Apply(ctx, labels, client.FieldOwner(promoter), client.ForceOwnership); err != nil {
		return fmt.Errorf("having pod %q serve: %w", update.Name, err)
	}
	return r.deletePods(ctx, graceReplaced, serving)
}

// promoter is the field manager of the labels by which a pod comes to serve.
const promoter = "olm.registry"

// now is the time as objects hold it.
func (r *reconciler) now() metav1.Time { return metav1.NewTime(r.clock.Now().Truncate(time.Second)) }
