package retrieval

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// Account is the service account of Jobs that retrieve releases. It has no permissions and no
// token.
const Account = "update-payload"

// DefaultDir is the default directory for releases on nodes.
const DefaultDir = "/etc/cvo/updatepayloads"

// jobTimeout is the active deadline of a Job.
const jobTimeout = 2 * time.Minute

// jobLabels are the labels of Jobs that retrieve releases.
var jobLabels = map[string]string{"k8s-app": "retrieve-openshift-release"}

// newRetrievalJob returns the Job that retrieves a release. It runs as root, because root owns the
// directory on the node, but without capabilities. It needs no scheduler: it names the
// operator's node.
func (w *Workload) newRetrievalJob(target configv1.Release) *batchv1.Job {
	const volume = "releases"
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: retrievalJobName(target), Labels: jobLabels},
		Spec: batchv1.JobSpec{
			ActiveDeadlineSeconds: ptr.To(int64(jobTimeout / time.Second)),
			BackoffLimit:          ptr.To(int32(3)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: jobLabels, Annotations: map[string]string{"openshift.io/required-scc": "privileged"}},
				Spec: corev1.PodSpec{
					NodeName: w.Node, ServiceAccountName: Account, AutomountServiceAccountToken: ptr.To(false),
					RestartPolicy: corev1.RestartPolicyOnFailure, PriorityClassName: "system-cluster-critical",
					Tolerations:     []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers: []corev1.Container{{
						Name: "copy", Image: target.Image,
						Args:                     []string{"run", Command, "--release-image=" + target.Image, "--to=" + w.Dir},
						TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("50Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("2Mi"),
						}},
						SecurityContext: &corev1.SecurityContext{
							RunAsUser: ptr.To(int64(0)), RunAsNonRoot: ptr.To(false), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
						VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: w.Dir}},
					}},
					Volumes: []corev1.Volume{{
						Name:         volume,
						VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: w.Dir, Type: ptr.To(corev1.HostPathDirectoryOrCreate)}},
					}},
				},
			},
		},
	}
}

// Command is the component of this program that the Job runs.
const Command = "copy-release"
