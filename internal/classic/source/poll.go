package source

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

// pollAction is the next step of a poll, which checks whether the image reference of a catalog
// points to another image.
type pollAction int

const (
	// pollWait does nothing until something changes or a poll is due.
	pollWait pollAction = iota
	// pollStart creates a pod with the image reference next to the serving pod, unless the registry reports that the image
	// is unchanged.
	pollStart
	// pollFail deletes that pod, because it does not show its image and never will.
	pollFail
	// pollDiscard deletes that pod, because it shows the image that is served or is outdated.
	pollDiscard
	// pollPromote makes that pod serve, because it shows another image.
	pollPromote
)

// decidePollAction returns the next step of a poll. update is the pod created by the poll, or nil.
func decidePollAction(due bool, update *corev1.Pod, wanted *corev1.Pod, serving []corev1.Pod) pollAction {
	if update == nil {
		if due {
			return pollStart
		}
		return pollWait
	}

	verdict := objects.JudgePod(update, wanted)
	switch {
	case verdict == objects.Ignore:
		return pollWait
	case verdict == objects.Remove, objects.IsBroken(update):
		return pollFail
	case verdict == objects.Replace:
		return pollDiscard // The catalog has changed since.
	case !objects.IsReady(update) && due:
		return pollFail // It did not become ready until the next poll.
	case !objects.IsReady(update):
		return pollWait
	}

	shown, isOther := objects.ImageID(update), false
	for _, pod := range serving {
		served := objects.ImageID(&pod)
		if shown == "" || served == "" {
			continue // An image is not known.
		}
		isOther = isOther || shown != served
	}

	if isOther {
		return pollPromote
	}

	return pollDiscard
}

// imagePoller checks periodically whether the image references of catalogs point to other images.
type imagePoller struct {
	pods        podWriter
	lookups     *digestLookups
	failedPolls *failedPolls
	clock       clock.PassiveClock
}

// pollCatalogImage checks whether a poll of a catalog's image is due or in progress, and executes its next step.
func (r *imagePoller) pollCatalogImage(ctx context.Context, c *objects.Catalog) error {
	updates, err := r.pods.listOwnedPods(ctx, r.pods.client, c, objects.LabelUpdate)
	if err != nil {
		return err
	}

	if !isPolled(c.CatalogSource) {
		r.failedPolls.remove(client.ObjectKeyFromObject(c.CatalogSource))
		return r.pods.deletePods(ctx, replacedPodGraceSeconds, updates)
	}

	recordPollStart(c.CatalogSource, updates)
	due := !r.clock.Now().Before(nextPollTime(c.CatalogSource))
	if len(updates) == 0 && !due {
		return nil
	}

	if len(updates) == 0 {
		// The cache may not contain a pod that was just created.
		if updates, err = r.pods.listOwnedPods(ctx, r.pods.apiReader, c, objects.LabelUpdate); err != nil {
			return err
		}
	}

	return r.advancePoll(ctx, c, due, updates)
}

// recordPollStart restores the start of the latest poll from its pod, in case a status update
// was lost.
func recordPollStart(catalog *v1alpha1.CatalogSource, updates []corev1.Pod) {
	for i := range updates {
		if last := catalog.Status.LatestImageRegistryPoll; last == nil || last.Before(&updates[i].CreationTimestamp) {
			begun := updates[i].CreationTimestamp
			catalog.Status.LatestImageRegistryPoll = &begun
		}
	}
}

// advancePoll executes the next step of a poll.
func (r *imagePoller) advancePoll(ctx context.Context, c *objects.Catalog, due bool, updates []corev1.Pod) error {
	wanted, err := c.UpdatePod()
	if err != nil {
		return err
	}

	serving, err := r.pods.listOwnedPods(ctx, r.pods.client, c, objects.LabelCatalog)
	if err != nil {
		return err
	}

	var update *corev1.Pod
	if len(updates) > 0 {
		update = &updates[0]
		// There is only one, unless a user has set the label.
		if err := r.pods.deletePods(ctx, replacedPodGraceSeconds, updates[1:]); err != nil {
			return err
		}
	}

	key := client.ObjectKeyFromObject(c.CatalogSource)
	switch decidePollAction(due, update, wanted, serving) {
	case pollStart:
		return r.startPoll(ctx, c, wanted, serving)
	case pollFail:
		r.failedPolls.record(key, formatPollFailure(update))
		return r.pods.deletePods(ctx, failedPodGraceSeconds, updates[:1])
	case pollDiscard:
		r.failedPolls.remove(key)
		return r.pods.deletePods(ctx, replacedPodGraceSeconds, updates[:1])
	case pollPromote:
		r.failedPolls.remove(key)
		return r.promoteUpdatePod(ctx, c, update, serving)
	case pollWait:
	}

	return nil
}

// startPoll requests the digest of the image from its registry. It creates a pod if that does not show that the image is
// unchanged.
func (r *imagePoller) startPoll(ctx context.Context, c *objects.Catalog, wanted *corev1.Pod, serving []corev1.Pod) error {
	switch r.lookups.checkImage(ctx, c, serving) {
	case lookupPending:
		return nil
	case lookupUnchanged:
		r.failedPolls.remove(client.ObjectKeyFromObject(c.CatalogSource))
	case lookupUnknown:
		if err := r.pods.createOwnedObject(ctx, wanted); err != nil {
			return fmt.Errorf("creating the update pod: %w", err)
		}
	}

	now := timestampOf(r.clock)
	c.Status.LatestImageRegistryPoll = &now
	return nil
}

// formatPollFailure returns the message of a failed poll.
func formatPollFailure(update *corev1.Pod) string {
	text := fmt.Sprintf("%supdate pod %s in a %s state: deleted update pod", registryErrorPrefix, update.Name, update.Status.Phase)
	if problem := objects.Problem(update); problem != "" {
		text += "; " + problem
	}
	return text
}

// failedPolls holds the messages of catalogs whose latest poll has failed, until a poll
// succeeds. Meanwhile an old catalog may be served.
type failedPolls struct {
	mu       sync.Mutex
	messages map[types.NamespacedName]string
}

func (f *failedPolls) record(catalog types.NamespacedName, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.messages == nil {
		f.messages = map[types.NamespacedName]string{}
	}
	f.messages[catalog] = why
}

func (f *failedPolls) remove(catalog types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.messages, catalog)
}

// messageFor returns why the latest poll of a catalog has failed, or "".
func (f *failedPolls) messageFor(catalog types.NamespacedName) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.messages[catalog]
}

// promoteUpdatePod makes the update pod serve, and deletes the pods that served before.
func (r *imagePoller) promoteUpdatePod(ctx context.Context, c *objects.Catalog, update *corev1.Pod, serving []corev1.Pod) error {
	labels := corev1ac.Pod(update.Name, update.Namespace).
		WithUID(update.UID).
		WithLabels(map[string]string{objects.LabelCatalog: c.Name, objects.LabelUpdate: ""})
	if err := r.pods.client.Apply(ctx, labels, client.FieldOwner(promoteFieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("promoting pod %q: %w", update.Name, err)
	}
	return r.pods.deletePods(ctx, replacedPodGraceSeconds, serving)
}

// promoteFieldOwner is the field manager of the labels that make a pod serve.
const promoteFieldOwner = "olm.registry"
