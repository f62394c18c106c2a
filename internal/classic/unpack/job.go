package unpack

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

// Jobs run in the namespace of the program and in that of global catalogs, which a flag sets.

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=list;create;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;update

// Jobs unpacks each bundle image with a Job in the namespace of the catalog. The Job writes the
// content into a ConfigMap there. It must only be used for namespaces whose editors are
// trusted.
type Jobs struct {
	// Client creates, updates and deletes objects.
	Client client.Client
	// Reader reads objects that are not cached.
	Reader client.Reader
	// Images are the images that Jobs run.
	Images Images
	// SetUserID sets a user ID in pods, for clusters that do not assign one.
	SetUserID bool
}

func (m *Jobs) unpackBundle(ctx context.Context, r *Result, b unpackRequest) (*corev1.ConfigMap, error) {
	j := &jobBuilder{image: b.image, catalog: b.catalog, timeout: b.limits.Timeout, images: m.Images, setUser: m.SetUserID}
	configMap, err := m.ensureConfigMap(ctx, j)
	if err != nil {
		return nil, err
	}
	if hasBundleContent(configMap) {
		return configMap, nil
	}
	if m.Images.OPM == "" || m.Images.Util == "" {
		return nil, fmt.Errorf("bundle image %s cannot be unpacked: the images of opm and the utility are not configured", b.image)
	}
	if err := m.ensureJobPermissions(ctx, j, newOwnerReference(configMap)); err != nil {
		return nil, err
	}

	return nil, m.reconcileJobs(ctx, r, j, newOwnerReference(configMap), b)
}

func (m *Jobs) failureAdvice(lookup *v1alpha1.BundleLookup) string {
	return fmt.Sprintf("It is retried when the Job is deleted, after about %d min; to retry sooner, delete Job %s in namespace %s",
		jobTTLSeconds/60, Name(lookup.Path), lookup.CatalogSourceRef.Namespace)
}

// hasBundleContent reports whether the Job has written the bundle.
func hasBundleContent(configMap *corev1.ConfigMap) bool {
	return len(configMap.Data)+len(configMap.BinaryData) > 0
}

// ensureConfigMap returns the ConfigMap of an image and creates it if it does not exist.
func (m *Jobs) ensureConfigMap(ctx context.Context, j *jobBuilder) (*corev1.ConfigMap, error) {
	wanted := j.newConfigMap()
	var existing corev1.ConfigMap
	err := m.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), &existing)
	if apierrors.IsNotFound(err) {
		if err := m.Client.Create(ctx, wanted); err != nil {
			return nil, fmt.Errorf("creating the ConfigMap for bundle image %s: %w", j.image, err)
		}
		return wanted, nil
	}

	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}

	owner := wanted.OwnerReferences[0]
	owned := slices.ContainsFunc(existing.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	if owned && csvinfo.HasLabels(existing.Labels, wanted.Labels) {
		return &existing, nil
	}
	if !owned {
		existing.OwnerReferences = append(existing.OwnerReferences, owner)
	}

	existing.Labels = csvinfo.MergeLabels(existing.Labels, wanted.Labels)
	if err := m.Client.Update(ctx, &existing); err != nil {
		return nil, fmt.Errorf("updating ConfigMap %s/%s: %w", existing.Namespace, existing.Name, err)
	}

	return &existing, nil
}

// ensureJobPermissions creates or updates the service account of the Job and its Role. The
// service account can write the ConfigMap and nothing else.
func (m *Jobs) ensureJobPermissions(ctx context.Context, j *jobBuilder, owner metav1.OwnerReference) error {
	account, role, binding := j.newServiceAccount(owner), j.newRole(owner), j.newRoleBinding(owner)
	haveAccount, haveRole, haveBinding := account.DeepCopy(), role.DeepCopy(), binding.DeepCopy()
	if _, err := m.getOrCreateObject(ctx, account, haveAccount); err != nil {
		return err
	}

	created, err := m.getOrCreateObject(ctx, role, haveRole)
	if err != nil {
		return err
	}

	if !created && !equality.Semantic.DeepEqual(haveRole.Rules, role.Rules) {
		haveRole.Rules = role.Rules
		if err := m.Client.Update(ctx, haveRole); err != nil {
			return fmt.Errorf("updating Role %s/%s: %w", role.Namespace, role.Name, err)
		}
	}

	created, err = m.getOrCreateObject(ctx, binding, haveBinding)
	if err != nil {
		return err
	}

	if !created && !equality.Semantic.DeepEqual(haveBinding.Subjects, binding.Subjects) {
		haveBinding.Subjects = binding.Subjects
		if err := m.Client.Update(ctx, haveBinding); err != nil {
			return fmt.Errorf("updating RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err)
		}
	}

	return nil
}

// getOrCreateObject reads an object into have, or creates it. It reports whether it was created.
func (m *Jobs) getOrCreateObject(ctx context.Context, wanted, have client.Object) (created bool, err error) {
	err = m.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), have)
	if apierrors.IsNotFound(err) {
		err = client.IgnoreAlreadyExists(m.Client.Create(ctx, wanted))
		created = true
	}
	if err != nil {
		return false, fmt.Errorf("ensuring %T %s/%s: %w", wanted, wanted.GetNamespace(), wanted.GetName(), err)
	}
	return created, nil
}

// reconcileJobs creates and deletes Jobs of an image, and sets the progress in the result.
func (m *Jobs) reconcileJobs(ctx context.Context, r *Result, j *jobBuilder, owner metav1.OwnerReference, b unpackRequest) error {
	ofImage := client.MatchingLabels{objects.LabelBundleUnpack: j.resourceName()}
	var jobs batchv1.JobList
	if err := m.Reader.List(ctx, &jobs, client.InNamespace(j.catalog.Namespace), ofImage); err != nil {
		return fmt.Errorf("listing the Jobs of bundle image %s: %w", j.image, err)
	}

	c := decideJobActions(jobs.Items, b.limits.MinRetryInterval, b.now)
	for _, job := range c.surplus {
		if err := m.deleteUnpackJob(ctx, job); err != nil {
			return err
		}
	}

	wanted := j.newJob(owner)
	switch {
	case c.current == nil:
		return m.createUnpackJob(ctx, r, wanted, len(jobs.Items) > 0, b.now)
	case !matchesDesiredJob(c.current, wanted):
		r.setLookupPending(v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, b.now)
		return m.deleteUnpackJob(ctx, c.current)
	case c.createAnother:
		wanted.GenerateName, wanted.Name = wanted.Name, ""
		return m.createUnpackJob(ctx, r, wanted, false, b.now)
	}

	if failed := findFailedCondition(c.current); failed != nil {
		again := FailedRequeueInterval
		if c.retryAfter > 0 {
			again = min(c.retryAfter, FailedRequeueInterval)
		}
		r.setLookupFailed(failed.Reason, failed.Message, again, b.now)
		return nil
	}

	var pods corev1.PodList
	if err := m.Reader.List(ctx, &pods, client.InNamespace(j.catalog.Namespace), ofImage); err != nil {
		return fmt.Errorf("listing the pods of bundle image %s: %w", j.image, err)
	}

	r.setLookupPending(v1alpha1.BundleLookupReasonJobIncomplete, describePendingPods(pods.Items), b.now)
	return nil
}

// createUnpackJob creates a Job, unless one with its name is being deleted.
func (m *Jobs) createUnpackJob(ctx context.Context, r *Result, job *batchv1.Job, isDeleting bool, now time.Time) error {
	if isDeleting {
		r.setLookupPending(v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, now)
		return nil
	}
	if err := client.IgnoreAlreadyExists(m.Client.Create(ctx, job)); err != nil {
		return fmt.Errorf("creating the Job that unpacks a bundle: %w", err)
	}

	r.setLookupPending(v1alpha1.BundleLookupReasonJobIncomplete, messageIncomplete, now)
	return nil
}

// deleteUnpackJob deletes a Job and its pods.
func (m *Jobs) deleteUnpackJob(ctx context.Context, job *batchv1.Job) error {
	err := m.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return nil
}

// matchesDesiredJob reports whether a Job has the desired fields. Fields that the API server
// adds are ignored.
func matchesDesiredJob(have, wanted *batchv1.Job) bool {
	owner := wanted.OwnerReferences[0]
	return slices.ContainsFunc(have.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) &&
		equality.Semantic.DeepDerivative(wanted.Spec, have.Spec) &&
		equality.Semantic.DeepEqual(have.Spec.ActiveDeadlineSeconds, wanted.Spec.ActiveDeadlineSeconds)
}
