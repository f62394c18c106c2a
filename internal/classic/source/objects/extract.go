package objects

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Folders and volumes of a pod that serves extracted content.
const (
	utilitiesVolume = "utilities"
	contentVolume   = "catalog-content"
	tmpVolume       = "tmpdir"

	utilitiesFolder = "/utilities"
	contentFolder   = "/extracted-catalog"
	catalogFolder   = contentFolder + "/catalog"
	cacheFolder     = contentFolder + "/cache"
	tmpFolder       = "/tmp/"
)

// addContentExtraction adds init containers that extract the content of the image, and replaces
// the server by opm. Root file systems are read-only.
func (c podBuilder) addContentExtraction(spec *corev1.PodSpec, config *v1alpha1.ExtractContentConfig) {
	readOnly := func() *corev1.SecurityContext {
		yes := true
		return &corev1.SecurityContext{ReadOnlyRootFilesystem: &yes}
	}
	utilities := corev1.VolumeMount{Name: utilitiesVolume, MountPath: utilitiesFolder}
	content := corev1.VolumeMount{Name: contentVolume, MountPath: contentFolder}
	copyCommand := append(append([]string{}, c.Images.Copy.Command...), "--catalog.from="+config.CatalogDir, "--catalog.to="+catalogFolder)
	if config.CacheDir != "" {
		copyCommand = append(copyCommand, "--cache.from="+config.CacheDir, "--cache.to="+cacheFolder)
	}

	spec.InitContainers = []corev1.Container{
		{
			Name: "extract-utilities", Image: c.Images.Copy.Image, ImagePullPolicy: imagePullPolicy(c.Images.Copy.Image),
			Command:      c.Images.Copy.Install,
			VolumeMounts: []corev1.VolumeMount{utilities}, SecurityContext: readOnly(),
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		},
		{
			Name: "extract-content", Image: c.Spec.Image, ImagePullPolicy: imagePullPolicy(c.Spec.Image),
			Command:      copyCommand,
			VolumeMounts: []corev1.VolumeMount{utilities, content}, SecurityContext: readOnly(),
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		},
	}

	server := &spec.Containers[0]
	server.Image, server.ImagePullPolicy = c.Images.OPM.Image, imagePullPolicy(c.Images.OPM.Image)
	server.Command, server.Args = c.Images.OPM.Command, []string{"serve", catalogFolder}
	server.SecurityContext = readOnly()
	server.VolumeMounts = []corev1.VolumeMount{content}
	spec.Volumes = []corev1.Volume{newEmptyDirVolume(utilitiesVolume), newEmptyDirVolume(contentVolume)}
	if config.CacheDir != "" {
		server.Args = append(server.Args, "--cache-dir="+cacheFolder)
		return
	}

	server.VolumeMounts = append(server.VolumeMounts, corev1.VolumeMount{Name: tmpVolume, MountPath: tmpFolder})
	spec.Volumes = append(spec.Volumes, newEmptyDirVolume(tmpVolume))
}

func newEmptyDirVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}
