package objects

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const (
	// containerName and configMapContainerName are the containers that serve.
	containerName          = "registry-server"
	configMapContainerName = "configmap-registry-server"

	annotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

	// workloadUser is whom confined pods run as where nobody else says.
	workloadUser = 1001

	// probeTimeout is how long an answer to a probe may take, in seconds.
	probeTimeout = 5
	// startFailures and startPeriod give a catalog 150 seconds to start.
	startFailures = 15
	startPeriod   = 10
)

// Pod is the pod that serves the catalog. It has no name but one that is generated.
func (c *Catalog) Pod() (*corev1.Pod, error) {
	spec := c.podSpec()
	hash, err := csvinfo.Hash(spec)
	if err != nil {
		return nil, fmt.Errorf("the pod of catalog %q: %w", c.Name, err)
	}

	labels := map[string]string{LabelCatalog: c.Name, LabelPodHash: hash}
	if c.IsConfigMap() {
		labels[LabelConfigMapVersion] = c.ConfigMapVersion
	}

	pod := &corev1.Pod{ObjectMeta: c.Meta("", labels), Spec: spec}
	pod.GenerateName = c.Name + "-"
	pod.Annotations = map[string]string{}
	maps.Copy(pod.Annotations, c.Annotations)
	// What was applied to the catalog, as kubectl notes it, was not applied to the pod.
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	pod.Annotations[annotationSafeToEvict] = "true"

	return pod, nil
}

// UpdatePod is a pod like the one that serves, which is not asked by anybody: it shows which image
// the reference stands for by now.
func (c *Catalog) UpdatePod() (*corev1.Pod, error) {
	pod, err := c.Pod()
	if err != nil {
		return nil, err
	}
	pod.Labels[LabelCatalog], pod.Labels[LabelUpdate] = "", c.Name
	return pod, nil
}

func (c *Catalog) podSpec() corev1.PodSpec {
	spec := corev1.PodSpec{
		Containers:         []corev1.Container{c.container()},
		NodeSelector:       map[string]string{corev1.LabelOSStable: string(corev1.Linux)},
		ServiceAccountName: c.AccountName(),
		ImagePullSecrets:   c.pullSecrets(),
	}
	if !c.IsConfigMap() {
		c.configure(&spec)
	}
	if class := c.Annotations[v1alpha1.AnnotationPriorityClass]; class != "" {
		spec.PriorityClassName = class
	}
	if c.isRestricted() {
		c.restrict(&spec)
	}

	return spec
}

// container is the one that serves.
func (c *Catalog) container() corev1.Container {
	readOnly := false
	container := corev1.Container{
		Name:                     containerName,
		Image:                    c.Spec.Image,
		Ports:                    []corev1.ContainerPort{{Name: portName, ContainerPort: Port, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe:           probe(5),
		LivenessProbe:            probe(10),
		StartupProbe:             probe(0),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          &corev1.SecurityContext{ReadOnlyRootFilesystem: &readOnly},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("50Mi"),
		}},
	}

	container.StartupProbe.FailureThreshold, container.StartupProbe.PeriodSeconds = startFailures, startPeriod
	if c.IsConfigMap() {
		server := c.Images.ConfigMapServer
		container.Name, container.Image = configMapContainerName, server.Image
		container.Command = append(append([]string{}, server.Command...), "-c", c.Spec.ConfigMap, "-n", c.Namespace)
		container.LivenessProbe.InitialDelaySeconds = 5
	}

	container.ImagePullPolicy = pullPolicy(container.Image)
	return container
}

func probe(delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: Port}},
		InitialDelaySeconds: delay, TimeoutSeconds: probeTimeout,
	}
}

// pullPolicy asks the registry each time what a tag stands for.
func pullPolicy(image string) corev1.PullPolicy {
	if IsPinned(image) {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

// IsPinned reports whether an image reference stands for the same image for ever.
func IsPinned(image string) bool { return strings.Contains(image, "@") }

func (c *Catalog) pullSecrets() []corev1.LocalObjectReference {
	var secrets []corev1.LocalObjectReference
	for _, name := range c.Spec.Secrets {
		if name != "" {
			secrets = append(secrets, corev1.LocalObjectReference{Name: name})
		}
	}
	return secrets
}

// configure has the pod be as spec.grpcPodConfig says. What it runs needs nothing of the API.
func (c *Catalog) configure(spec *corev1.PodSpec) {
	token := false
	spec.AutomountServiceAccountToken = &token
	config := c.Spec.GrpcPodConfig
	if config == nil {
		return
	}
	if config.NodeSelector != nil {
		spec.NodeSelector = maps.Clone(config.NodeSelector)
	}

	for _, toleration := range config.Tolerations {
		spec.Tolerations = append(spec.Tolerations, *toleration.DeepCopy())
	}

	spec.Affinity = config.Affinity.DeepCopy()
	if config.PriorityClassName != nil {
		spec.PriorityClassName = *config.PriorityClassName
	}

	server := &spec.Containers[0]
	if config.MemoryTarget != nil {
		server.Resources.Requests[corev1.ResourceMemory] = config.MemoryTarget.DeepCopy()
		// Go takes KiB, MiB and so on, and B; quantities leave out the B.
		target := resource.NewQuantity(config.MemoryTarget.Value(), resource.BinarySI).String() + "B"
		server.Env = append(server.Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: target})
	}

	if config.ExtractContent != nil {
		c.extract(spec, config.ExtractContent)
	}
}

// isRestricted reports whether the pod meets the pod security standard of that name.
func (c *Catalog) isRestricted() bool {
	if config := c.Spec.GrpcPodConfig; config != nil && config.SecurityContextConfig != "" {
		return config.SecurityContextConfig == v1alpha1.Restricted
	}
	return c.NamespaceLabels[LabelEnforce] == "restricted"
}

func (c *Catalog) restrict(spec *corev1.PodSpec) {
	spec.SecurityContext = &corev1.PodSecurityContext{
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if c.SetUserID {
		user, yes := int64(workloadUser), true
		spec.SecurityContext.RunAsUser, spec.SecurityContext.RunAsNonRoot = &user, &yes
	}

	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			no := false
			security := containers[i].SecurityContext
			security.AllowPrivilegeEscalation = &no
			security.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
		}
	}
}

// IsServing reports whether a pod is one that serves a catalog, and not one that shows an image.
func IsServing(pod metav1.Object, catalog string) bool {
	return pod.GetLabels()[LabelCatalog] == catalog
}

// IsUpdate reports whether a pod shows the image of a catalog.
func IsUpdate(pod metav1.Object, catalog string) bool {
	return pod.GetLabels()[LabelUpdate] == catalog
}
