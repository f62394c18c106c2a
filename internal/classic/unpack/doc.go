// Package unpack extracts bundle images into ConfigMaps, to which the steps of InstallPlans
// refer. There are two methods. [Jobs] creates a Job for each image, which writes the ConfigMap
// in the namespace of the catalog. [Inline] works in this process and writes the ConfigMap in
// the namespace of the program. Jobs are used only for catalogs in namespaces whose editors are
// trusted, and [Mode] decides whether they are used at all. Content is read from trusted
// namespaces only.
//
// The package does not decide which bundles are unpacked and has no control loop: callers ask
// again until a bundle is unpacked. Package steps processes the content.
package unpack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
)

// Mode is how the bundles of catalogs in trusted namespaces are unpacked. Those of all other
// catalogs are unpacked inline.
type Mode string

// Modes of unpacking.
const (
	// ModeJob unpacks by Jobs, as other implementations of OLM Classic do.
	ModeJob Mode = "job"
	// ModeInline unpacks in the process. It needs no node.
	ModeInline Mode = "inline"
)

// ParseMode returns the mode with a name.
func ParseMode(name string) (Mode, error) {
	switch mode := Mode(name); mode {
	case ModeJob, ModeInline:
		return mode, nil
	default:
		return "", fmt.Errorf("%q is not a way to unpack bundles: it must be %s or %s", name, ModeJob, ModeInline)
	}
}

// Annotations of an OperatorGroup.
const (
	// AnnotationTimeout limits how long a Job may run, as a duration; 0 means no limit.
	AnnotationTimeout = "operatorframework.io/bundle-unpack-timeout"
	// AnnotationMinRetryInterval is the interval after which a failed Job is retried; 0 means
	// never.
	AnnotationMinRetryInterval = "operatorframework.io/bundle-unpack-min-retry-interval"
)

// DefaultTimeout is the default timeout of a Job.
const DefaultTimeout = 10 * time.Minute

// FailedRequeueInterval is the requeue interval after a Job has failed. By then the failed Job is deleted,
// and the next one is created.
const FailedRequeueInterval = jobTTLSeconds * time.Second

// PendingRequeueInterval is the requeue interval while a Job runs.
const PendingRequeueInterval = 5 * time.Second

// maxNameLength is the maximum length of a label's value. The name is also used in labels.
const maxNameLength = 63

// Name returns the name of all objects that unpack an image.
func Name(image string) string {
	sum := sha256.Sum256([]byte(image))
	return hex.EncodeToString(sum[:])[:maxNameLength]
}

// Limits are the timeout and the retry interval of Jobs.
type Limits struct {
	// Timeout limits how long a Job may run; 0 means no limit.
	Timeout time.Duration
	// MinRetryInterval is the interval after which a failed Job is retried while it still
	// exists; 0 means never.
	MinRetryInterval time.Duration
}

// LimitsOf returns the limits in the annotations of an OperatorGroup, which may be nil. Missing
// or invalid annotations are ignored. timeout is the default timeout.
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
