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
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=list;create;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;update

// Unpacker has bundles unpacked.
type Unpacker struct {
	// Client writes.
	Client client.Client
	// Reader reads what no cache holds.
	Reader client.Reader
	// Images are those of the programs that Jobs run.
	Images Images
	// SetUserID has pods run as a user of their own, where nobody else sets one.
	SetUserID bool
	// Now tells the time. Unset: it is that of the machine.
	Now func() time.Time
}

// Result is how far a bundle is.
type Result struct {
	// Lookup is the bundle, with what is known of it by now in its conditions.
	Lookup v1alpha1.BundleLookup
	// Steps are those of the bundle, once it is unpacked. In place of manifests they have references.
	Steps []*v1alpha1.Step
	// Done says that the bundle is unpacked.
	Done bool
	// Again is after how long to ask once more; 0 when the bundle is unpacked.
	Again time.Duration
}

// Unpack does the next that can be done to get a bundle out of its image, for a plan in a namespace. It
// waits for nothing. What fails in the Job shows in the conditions; an error of type
// [*steps.InvalidError] says that the content of the bundle is of no use.
func (u *Unpacker) Unpack(ctx context.Context, namespace string, lookup v1alpha1.BundleLookup, limits Limits) (Result, error) {
	r := Result{Lookup: *lookup.DeepCopy()}
	if lookup.CatalogSourceRef == nil {
		return r, fmt.Errorf("bundle %s names no CatalogSource", lookup.Identifier)
	}
	var catalog v1alpha1.CatalogSource
	err := u.Client.Get(ctx, client.ObjectKey{Namespace: lookup.CatalogSourceRef.Namespace, Name: lookup.CatalogSourceRef.Name}, &catalog)
	if apierrors.IsNotFound(err) {
		r.pending(v1alpha1.BundleLookupReasonCatalogSourceMissing, messageNoCatalog, u.now())
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading the CatalogSource of bundle %s: %w", lookup.Identifier, err)
	}
	j := &job{image: lookup.Path, catalog: &catalog, timeout: limits.Timeout, images: u.Images, setUser: u.SetUserID}
	configMap, err := u.ensureConfigMap(ctx, j)
	if err != nil {
		return r, err
	}
	if isFilled(configMap) {
		return r, r.finish(namespace, configMap)
	}
	if u.Images.OPM == "" || u.Images.Util == "" {
		return r, fmt.Errorf("bundle image %s cannot be unpacked: no images are configured whose programs do that", lookup.Path)
	}
	if err := u.ensureRights(ctx, j, ownedBy(configMap)); err != nil {
		return r, err
	}
	return r, u.run(ctx, &r, j, ownedBy(configMap), limits.MinRetryInterval)
}

func (u *Unpacker) now() time.Time {
	if u.Now == nil {
		return time.Now()
	}
	return u.Now()
}

func (r *Result) pending(reason, message string, now time.Time) {
	unset(&r.Lookup, v1alpha1.BundleLookupFailed)
	set(&r.Lookup, v1alpha1.BundleLookupPending, reason, message, now)
	r.Again = AskAgain
}

// isFilled tells whether the Job has written the bundle.
func isFilled(configMap *corev1.ConfigMap) bool {
	return len(configMap.Data)+len(configMap.BinaryData) > 0
}

// finish makes the steps of a bundle that is unpacked.
func (r *Result) finish(namespace string, configMap *corev1.ConfigMap) error {
	l := &r.Lookup
	made, err := stepsOf(namespace, l.Replaces, l.Properties, l.CatalogSourceRef.Namespace, l.CatalogSourceRef.Name, configMap)
	if err != nil {
		return err
	}
	err = steps.Refer(made, steps.Reference{
		Name: configMap.Name, Namespace: configMap.Namespace,
		CatalogSourceName: l.CatalogSourceRef.Name, CatalogSourceNamespace: l.CatalogSourceRef.Namespace,
		Replaces: l.Replaces, Properties: l.Properties,
	})
	if err != nil {
		return err
	}
	unset(l, v1alpha1.BundleLookupPending, v1alpha1.BundleLookupNotPersisted, v1alpha1.BundleLookupFailed)
	r.Steps, r.Done, r.Again = made, true, 0
	return nil
}

func stepsOf(namespace, replaces, properties, catalogNamespace, catalog string, configMap *corev1.ConfigMap) ([]*v1alpha1.Step, error) {
	b, err := steps.DecodeConfigMap(configMap)
	if err != nil {
		return nil, err
	}
	b.Replaces, b.Properties = replaces, properties
	return steps.FromBundle(b, steps.Place{Namespace: namespace, Catalog: catalog, CatalogNamespace: catalogNamespace})
}

// StepsOf makes the steps of an unpacked bundle once more, as a reference in a step of a plan in a
// namespace tells of it.
func StepsOf(ctx context.Context, reader client.Reader, namespace string, ref steps.Reference) ([]*v1alpha1.Step, error) {
	var configMap corev1.ConfigMap
	if err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &configMap); err != nil {
		return nil, fmt.Errorf("reading the bundle that was unpacked into ConfigMap %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return stepsOf(namespace, ref.Replaces, ref.Properties, ref.CatalogSourceNamespace, ref.CatalogSourceName, &configMap)
}

// ensureConfigMap gives the ConfigMap of an image, which it makes when there is none.
func (u *Unpacker) ensureConfigMap(ctx context.Context, j *job) (*corev1.ConfigMap, error) {
	wanted := j.configMap()
	var have corev1.ConfigMap
	err := u.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), &have)
	if apierrors.IsNotFound(err) {
		if err := u.Client.Create(ctx, wanted); err != nil {
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
	if err := u.Client.Update(ctx, &have); err != nil {
		return nil, fmt.Errorf("updating ConfigMap %s/%s: %w", have.Namespace, have.Name, err)
	}
	return &have, nil
}

// ensureRights has the account of the Job be there, which may write the ConfigMap and nothing else.
func (u *Unpacker) ensureRights(ctx context.Context, j *job, owner metav1.OwnerReference) error {
	account, role, binding := j.account(owner), j.role(owner), j.binding(owner)
	haveAccount, haveRole, haveBinding := account.DeepCopy(), role.DeepCopy(), binding.DeepCopy()
	if _, err := u.ensure(ctx, account, haveAccount); err != nil {
		return err
	}
	created, err := u.ensure(ctx, role, haveRole)
	if err != nil {
		return err
	}
	if !created && !equality.Semantic.DeepEqual(haveRole.Rules, role.Rules) {
		haveRole.Rules = role.Rules
		if err := u.Client.Update(ctx, haveRole); err != nil {
			return fmt.Errorf("updating Role %s/%s: %w", role.Namespace, role.Name, err)
		}
	}
	created, err = u.ensure(ctx, binding, haveBinding)
	if err != nil {
		return err
	}
	if !created && !equality.Semantic.DeepEqual(haveBinding.Subjects, binding.Subjects) {
		haveBinding.Subjects = binding.Subjects
		if err := u.Client.Update(ctx, haveBinding); err != nil {
			return fmt.Errorf("updating RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err)
		}
	}
	return nil
}

// ensure reads an object into have, or creates it.
func (u *Unpacker) ensure(ctx context.Context, wanted, have client.Object) (created bool, err error) {
	err = u.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), have)
	if apierrors.IsNotFound(err) {
		err = client.IgnoreAlreadyExists(u.Client.Create(ctx, wanted))
		created = true
	}
	if err != nil {
		return false, fmt.Errorf("ensuring %T %s/%s: %w", wanted, wanted.GetNamespace(), wanted.GetName(), err)
	}
	return created, nil
}

// run has a Job run, and tells how far it is.
func (u *Unpacker) run(ctx context.Context, r *Result, j *job, owner metav1.OwnerReference, interval time.Duration) error {
	ofImage := client.MatchingLabels{objects.LabelBundleUnpack: j.name()}
	var jobs batchv1.JobList
	if err := u.Reader.List(ctx, &jobs, client.InNamespace(j.catalog.Namespace), ofImage); err != nil {
		return fmt.Errorf("listing the Jobs of bundle image %s: %w", j.image, err)
	}
	c := choose(jobs.Items, interval, u.now())
	for _, job := range c.surplus {
		if err := u.remove(ctx, job); err != nil {
			return err
		}
	}
	wanted := j.job(owner)
	switch {
	case c.current == nil:
		return u.start(ctx, r, wanted, len(jobs.Items) > 0)
	case !isAsWanted(c.current, wanted):
		r.pending(v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, u.now())
		return u.remove(ctx, c.current)
	case c.another:
		wanted.GenerateName, wanted.Name = wanted.Name, ""
		return u.start(ctx, r, wanted, false)
	}
	if failed := failure(c.current); failed != nil {
		unset(&r.Lookup, v1alpha1.BundleLookupPending)
		set(&r.Lookup, v1alpha1.BundleLookupFailed, failed.Reason, failed.Message, u.now())
		r.Again = RetryAfter
		if c.again > 0 {
			r.Again = min(c.again, RetryAfter)
		}
		return nil
	}
	var pods corev1.PodList
	if err := u.Reader.List(ctx, &pods, client.InNamespace(j.catalog.Namespace), ofImage); err != nil {
		return fmt.Errorf("listing the pods of bundle image %s: %w", j.image, err)
	}
	r.pending(v1alpha1.BundleLookupReasonJobIncomplete, trouble(pods.Items), u.now())
	return nil
}

// start makes a Job. goes says that one with its name is on its way out.
func (u *Unpacker) start(ctx context.Context, r *Result, job *batchv1.Job, goes bool) error {
	if goes {
		r.pending(v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, u.now())
		return nil
	}
	if err := client.IgnoreAlreadyExists(u.Client.Create(ctx, job)); err != nil {
		return fmt.Errorf("creating the Job that unpacks a bundle: %w", err)
	}
	r.pending(v1alpha1.BundleLookupReasonJobIncomplete, messageIncomplete, u.now())
	return nil
}

func (u *Unpacker) remove(ctx context.Context, job *batchv1.Job) error {
	err := u.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return nil
}

// isAsWanted tells whether a Job has all that it was made with. What the API server adds does not count.
func isAsWanted(have, wanted *batchv1.Job) bool {
	owner := wanted.OwnerReferences[0]
	return slices.ContainsFunc(have.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) &&
		equality.Semantic.DeepDerivative(wanted.Spec, have.Spec) &&
		equality.Semantic.DeepEqual(have.Spec.ActiveDeadlineSeconds, wanted.Spec.ActiveDeadlineSeconds)
}
