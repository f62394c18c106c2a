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

// Jobs run in the namespace of the program and in that of global catalogs, which a flag names.

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=list;create;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;update

// Jobs unpack each bundle image by a Job, in the namespace of the catalog. The Job writes the content
// into a ConfigMap there, so that this is only for namespaces whose editors are trusted.
type Jobs struct {
	// Client writes.
	Client client.Client
	// Reader reads what no cache holds.
	Reader client.Reader
	// Images are those of the programs that Jobs run.
	Images Images
	// SetUserID has pods run as a user of their own, where nobody else sets one.
	SetUserID bool
}

func (m *Jobs) unpack(ctx context.Context, r *Result, b request) (*corev1.ConfigMap, error) {
	j := &job{image: b.image, catalog: b.catalog, timeout: b.limits.Timeout, images: m.Images, setUser: m.SetUserID}
	configMap, err := m.ensureConfigMap(ctx, j)
	if err != nil {
		return nil, err
	}
	if isFilled(configMap) {
		return configMap, nil
	}
	if m.Images.OPM == "" || m.Images.Util == "" {
		return nil, fmt.Errorf("bundle image %s cannot be unpacked: no images are configured whose programs do that", b.image)
	}
	if err := m.ensureRights(ctx, j, ownedBy(configMap)); err != nil {
		return nil, err
	}

	return nil, m.run(ctx, r, j, ownedBy(configMap), b)
}

func (m *Jobs) advice(lookup *v1alpha1.BundleLookup) string {
	return fmt.Sprintf("It is tried again when the Job is gone, after about %d min; to try sooner, delete Job %s in namespace %s",
		jobTTL/60, Name(lookup.Path), lookup.CatalogSourceRef.Namespace)
}

// isFilled reports whether the Job has written the bundle.
func isFilled(configMap *corev1.ConfigMap) bool {
	return len(configMap.Data)+len(configMap.BinaryData) > 0
}

// ensureConfigMap returns the ConfigMap of an image, which it makes when there is none.
func (m *Jobs) ensureConfigMap(ctx context.Context, j *job) (*corev1.ConfigMap, error) {
	wanted := j.configMap()
	var have corev1.ConfigMap
	err := m.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), &have)
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
	owned := slices.ContainsFunc(have.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	if owned && csvinfo.Matches(have.Labels, wanted.Labels) {
		return &have, nil
	}
	if !owned {
		have.OwnerReferences = append(have.OwnerReferences, owner)
	}

	have.Labels = csvinfo.With(have.Labels, wanted.Labels)
	if err := m.Client.Update(ctx, &have); err != nil {
		return nil, fmt.Errorf("updating ConfigMap %s/%s: %w", have.Namespace, have.Name, err)
	}

	return &have, nil
}

// ensureRights has the account of the Job be there, which may write the ConfigMap and nothing else.
func (m *Jobs) ensureRights(ctx context.Context, j *job, owner metav1.OwnerReference) error {
	account, role, binding := j.account(owner), j.role(owner), j.binding(owner)
	haveAccount, haveRole, haveBinding := account.DeepCopy(), role.DeepCopy(), binding.DeepCopy()
	if _, err := m.ensure(ctx, account, haveAccount); err != nil {
		return err
	}

	created, err := m.ensure(ctx, role, haveRole)
	if err != nil {
		return err
	}

	if !created && !equality.Semantic.DeepEqual(haveRole.Rules, role.Rules) {
		haveRole.Rules = role.Rules
		if err := m.Client.Update(ctx, haveRole); err != nil {
			return fmt.Errorf("updating Role %s/%s: %w", role.Namespace, role.Name, err)
		}
	}

	created, err = m.ensure(ctx, binding, haveBinding)
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

// ensure reads an object into have, or creates it.
func (m *Jobs) ensure(ctx context.Context, wanted, have client.Object) (created bool, err error) {
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

// run has a Job run, and tells how far it is.
func (m *Jobs) run(ctx context.Context, r *Result, j *job, owner metav1.OwnerReference, b request) error {
	ofImage := client.MatchingLabels{objects.LabelBundleUnpack: j.name()}
	var jobs batchv1.JobList
	if err := m.Reader.List(ctx, &jobs, client.InNamespace(j.catalog.Namespace), ofImage); err != nil {
		return fmt.Errorf("listing the Jobs of bundle image %s: %w", j.image, err)
	}

	c := choose(jobs.Items, b.limits.MinRetryInterval, b.now)
	for _, job := range c.surplus {
		if err := m.remove(ctx, job); err != nil {
			return err
		}
	}

	wanted := j.job(owner)
	switch {
	case c.current == nil:
		return m.start(ctx, r, wanted, len(jobs.Items) > 0, b.now)
	case !isAsWanted(c.current, wanted):
		r.pending(v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, b.now)
		return m.remove(ctx, c.current)
	case c.another:
		wanted.GenerateName, wanted.Name = wanted.Name, ""
		return m.start(ctx, r, wanted, false, b.now)
	}

	if failed := failure(c.current); failed != nil {
		again := RetryAfter
		if c.again > 0 {
			again = min(c.again, RetryAfter)
		}
		r.failed(failed.Reason, failed.Message, again, b.now)
		return nil
	}

	var pods corev1.PodList
	if err := m.Reader.List(ctx, &pods, client.InNamespace(j.catalog.Namespace), ofImage); err != nil {
		return fmt.Errorf("listing the pods of bundle image %s: %w", j.image, err)
	}

	r.pending(v1alpha1.BundleLookupReasonJobIncomplete, trouble(pods.Items), b.now)
	return nil
}

// start makes a Job. goes says that one with its name is on its way out.
func (m *Jobs) start(ctx context.Context, r *Result, job *batchv1.Job, goes bool, now time.Time) error {
	if goes {
		r.pending(v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, now)
		return nil
	}
	if err := client.IgnoreAlreadyExists(m.Client.Create(ctx, job)); err != nil {
		return fmt.Errorf("creating the Job that unpacks a bundle: %w", err)
	}

	r.pending(v1alpha1.BundleLookupReasonJobIncomplete, messageIncomplete, now)
	return nil
}

func (m *Jobs) remove(ctx context.Context, job *batchv1.Job) error {
	err := m.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return nil
}

// isAsWanted reports whether a Job has all that it was made with. What the API server adds does not count.
func isAsWanted(have, wanted *batchv1.Job) bool {
	owner := wanted.OwnerReferences[0]
	return slices.ContainsFunc(have.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) &&
		equality.Semantic.DeepDerivative(wanted.Spec, have.Spec) &&
		equality.Semantic.DeepEqual(have.Spec.ActiveDeadlineSeconds, wanted.Spec.ActiveDeadlineSeconds)
}
