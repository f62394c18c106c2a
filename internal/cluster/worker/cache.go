package worker

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/apply/memory"
)

// maxRememberedObjects limits the objects in the memory, at 300 bytes each. It is the limit of a
// payload.
const maxRememberedObjects = 20_000

// appliedMemory caches what was written to each object, and whether it was found healthy
// afterwards. An object with a known resource version is not even read.
type appliedMemory = memory.Memory[bool]

// versionOf returns the version of an object that was read.
func versionOf(u *unstructured.Unstructured) memory.Object {
	return memory.Object{UID: u.GetUID(), Version: u.GetResourceVersion()}
}

// digestContent returns the digest of everything in an object that a manifest can set.
func digestContent(u *unstructured.Unstructured) memory.Digest {
	content := make(map[string]any, len(u.Object))
	for field, value := range u.Object {
		if field != "metadata" && field != "status" {
			content[field] = value
		}
	}
	return memory.DigestOf(content, u.GetLabels(), u.GetAnnotations(), u.GetOwnerReferences(), u.GetFinalizers(), u.GetDeletionTimestamp())
}
