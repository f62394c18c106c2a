package unpack

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

const (
	// jobBackoffLimit is how often a pod of a Job is retried.
	jobBackoffLimit = 3
	// jobTTLSeconds is how long a finished Job is kept.
	jobTTLSeconds = 300
	// workloadUserID is the user ID of pods in clusters that do not assign one.
	workloadUserID = 1001
	// unreachableTolerationSeconds is how long a pod stays on a node that is unreachable.
	unreachableTolerationSeconds = 120

	bundleVolume, bundleFolder = "bundle", "/bundle"
	utilVolume, utilFolder     = "util", "/util"

	// envImage is the environment variable with the image that a Job unpacks.
	envImage = "CONTAINER_IMAGE"
)

// Images are the images that a Job runs.
type Images struct {
	// OPM contains the program opm.
	OPM string
	// Util contains /bin/cp, and /bin/cpb, which copies a bundle out of the image that it runs
	// in.
	Util string
}

// jobBuilder builds the objects that unpack an image.
type jobBuilder struct {
	image   string
	catalog *v1alpha1.CatalogSource
	timeout time.Duration
	images  Images
	setUser bool
}

func (j *jobBuilder) resourceName() string { return Name(j.image) }

func (j *jobBuilder) newObjectMeta(owners ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: j.resourceName(), Namespace: j.catalog.Namespace, OwnerReferences: owners,
		Labels: map[string]string{csvinfo.LabelManaged: "true"},
	}
}

// newConfigMap returns the ConfigMap for the bundle. The catalog owns it.
func (j *jobBuilder) newConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: j.newObjectMeta(metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.CatalogSourceKind, Name: j.catalog.Name, UID: j.catalog.UID,
		Controller: ptr.To(false), BlockOwnerDeletion: ptr.To(false),
	})}
}

// newOwnerReference returns an owner reference to the ConfigMap, which owns all other objects.
func newOwnerReference(configMap *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ConfigMap", Name: configMap.Name, UID: configMap.UID,
		Controller: ptr.To(false), BlockOwnerDeletion: ptr.To(false),
	}
}

func (j *jobBuilder) newServiceAccount(owner metav1.OwnerReference) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: j.newObjectMeta(owner)}
}

func (j *jobBuilder) newRole(owner metav1.OwnerReference) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: j.newObjectMeta(owner), Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{corev1.GroupName}, Resources: []string{"configmaps"}, ResourceNames: []string{j.resourceName()},
		Verbs: []string{"create", "get", "update"},
	}}}
}

func (j *jobBuilder) newRoleBinding(owner metav1.OwnerReference) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: j.newObjectMeta(owner),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: j.resourceName(), Namespace: j.catalog.Namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: j.resourceName()},
	}
}

// newJob returns the Job.
func (j *jobBuilder) newJob(owner metav1.OwnerReference) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: j.newObjectMeta(owner)}
	job.Labels[objects.LabelBundleUnpack] = j.resourceName()
	job.Spec = batchv1.JobSpec{
		BackoffLimit:            ptr.To[int32](jobBackoffLimit),
		TTLSecondsAfterFinished: ptr.To[int32](jobTTLSeconds),
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Name: j.resourceName(), Labels: map[string]string{
				csvinfo.LabelManaged: "true", objects.LabelBundleUnpack: j.resourceName(),
			}},
			Spec: j.newPodSpec(),
		},
	}
	if j.timeout > 0 {
		job.Spec.ActiveDeadlineSeconds = ptr.To(int64((j.timeout + time.Second - 1) / time.Second))
	}

	return job
}

func (j *jobBuilder) newPodSpec() corev1.PodSpec {
	util := corev1.VolumeMount{Name: utilVolume, MountPath: utilFolder}
	bundle := corev1.VolumeMount{Name: bundleVolume, MountPath: bundleFolder}
	extract := newContainer("extract", j.images.OPM, bundle)
	extract.Command = []string{"opm", "alpha", "bundle", "extract", "-m", bundleFolder + "/", "-n", j.catalog.Namespace, "-c", j.resourceName(), "-z"}
	extract.Env = []corev1.EnvVar{{Name: envImage, Value: j.image}}
	install := newContainer("util", j.images.Util, util)
	install.Command = []string{"/bin/cp", "-Rv", "/bin/cpb", utilFolder + "/cpb"}
	pull := newContainer("pull", j.image, bundle, util)
	pull.Command = []string{utilFolder + "/cpb", bundleFolder}
	spec := corev1.PodSpec{
		RestartPolicy:      corev1.RestartPolicyNever,
		ServiceAccountName: j.resourceName(),
		SecurityContext:    &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		InitContainers:     []corev1.Container{install, pull},
		Containers:         []corev1.Container{extract},
		Volumes:            []corev1.Volume{newEmptyDirVolume(bundleVolume), newEmptyDirVolume(utilVolume)},
		NodeSelector:       map[string]string{corev1.LabelOSStable: string(corev1.Linux)},
		Tolerations:        newTolerations(),
	}
	if j.setUser {
		spec.SecurityContext.RunAsUser, spec.SecurityContext.RunAsNonRoot = ptr.To[int64](workloadUserID), ptr.To(true)
	}

	for _, name := range j.catalog.Spec.Secrets {
		if name != "" {
			spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
		}
	}

	return spec
}

func newContainer(name, image string, mounts ...corev1.VolumeMount) corev1.Container {
	policy := corev1.PullAlways
	if objects.IsPinned(image) {
		policy = corev1.PullIfNotPresent
	}
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: policy, VolumeMounts: mounts,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("50Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func newEmptyDirVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// newTolerations returns tolerations with which bundles can be unpacked on nodes of any
// architecture.
func newTolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for _, arch := range []string{"amd64", "arm64", "ppc64le", "s390x"} {
		all = append(all, corev1.Toleration{Key: corev1.LabelArchStable, Operator: corev1.TolerationOpEqual, Value: arch})
	}

	all = append(all, corev1.Toleration{Key: "node-role.kubernetes.io/master", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	for _, taint := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		all = append(all, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](unreachableTolerationSeconds),
		})
	}

	return all
}
