// Package unpack gets bundles out of their images into ConfigMaps, to which steps of InstallPlans refer.
// There are two ways: [Jobs], one for each image, which write the ConfigMap in the namespace of the
// catalog; and [Inline], in this process, with the ConfigMap in the program's own namespace. Jobs are for
// catalogs in namespaces whose editors are trusted. Content is read from trusted namespaces only.
//
// It does not decide which bundles are unpacked, and holds no loop: who needs a bundle asks again until
// it is there. What becomes of its content is the steps room's work.
package unpack

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
)

// Annotations of an OperatorGroup.
const (
	// AnnotationTimeout is how long a Job may run, as a duration; 0 is without end.
	AnnotationTimeout = "operatorframework.io/bundle-unpack-timeout"
	// AnnotationMinRetryInterval is how long after a failed Job another is made; 0 is never.
	AnnotationMinRetryInterval = "operatorframework.io/bundle-unpack-min-retry-interval"
)

// DefaultTimeout is how long a Job may run when nothing else is said.
const DefaultTimeout = 10 * time.Minute

// RetryAfter is how long to wait, after a Job failed, before asking again: failed Jobs are gone by then,
// and the next is made.
const RetryAfter = jobTTL * time.Second

// AskAgain is how long to wait for a Job that runs.
const AskAgain = 5 * time.Second

// maxNameLength is that of the value of a label, which the name is too.
const maxNameLength = 63

// Name is the name of everything that an image is unpacked with.
func Name(image string) string {
	sum := sha256.Sum256([]byte(image))
	return hex.EncodeToString(sum[:])[:maxNameLength]
}

// Limits are how long Jobs run and rest.
type Limits struct {
	// Timeout is how long a Job may run; 0 is without end.
	Timeout time.Duration
	// MinRetryInterval is how long after a failed Job another is made; 0 is never, while the failed one
	// is there.
	MinRetryInterval time.Duration
}

// LimitsOf are those that the OperatorGroup of the namespace, which may be nil, says. What it does not
// say, or says in a way that cannot be understood, is as always: the timeout is the given one.
func LimitsOf(group *operatorsv1.OperatorGroup, timeout time.Duration) Limits {
	limits := Limits{Timeout: timeout}
	if group == nil {
		return limits
	}
	if d, err := time.ParseDuration(group.Annotations[AnnotationTimeout]); err == nil && d >= 0 {
		limits.Timeout = d
	}
	if d, err := time.ParseDuration(group.Annotations[AnnotationMinRetryInterval]); err == nil && d >= 0 {
		limits.MinRetryInterval = d
	}

	return limits
}
