// Package release loads release payloads: the manifests of a whole cluster, the images that they
// run, and the metadata of the release. It selects the manifests that belong to a cluster, and
// determines the order in which they are applied.
//
// A payload has two directories. "manifests" contains the manifests of the operator that applies
// the payload, which are templates. "release-manifests" contains all other manifests, and the
// files image-references and release-metadata.
//
// The package has no side effects. It does not pull or build images, verify signatures or apply
// manifests. It does not define how objects are merged into a cluster and when they are ready.
package release

import (
	"errors"
	"fmt"
	"strings"
)

// Directories and files of a payload.
const (
	// FolderOwn contains the manifests of the operator that applies the payload.
	FolderOwn = "manifests"
	// FolderRelease contains all other manifests.
	FolderRelease = "release-manifests"
	// FolderBootstrap contains the Pod manifests that run the operator before there is a cluster.
	// Only a bootstrap machine reads it.
	FolderBootstrap = "bootstrap"
	// FileImages lists the images of the release.
	FileImages = FolderRelease + "/image-references"
	// FileMetadata contains the metadata of the release.
	FileMetadata = FolderRelease + "/release-metadata"
)

// Limits of a payload. A large payload has about 1,000 manifests and 30 MiB. The deepest CRD
// schema has 34 levels, and an API server accepts objects up to 1.5 MiB. Each limit is several
// times as large. The image-references of 200 images have 150 KiB.
const (
	maxFileBytes     = 8 << 20
	maxMetadataBytes = 1 << 20 // of image-references, and of release-metadata
	maxTotalBytes    = 128 << 20
	maxFiles         = 10_000
	maxManifests     = 20_000
	maxDepth         = 200
)

// maxReportedFaults is the maximum number of faults in an error.
const maxReportedFaults = 1000

// Payload is the content of a release image.
type Payload struct {
	// Metadata is the metadata of the release.
	Metadata Metadata
	// Images are the images of the release.
	Images ImageReferences
	// Manifests are all manifests in the order of the payload: those of FolderOwn by file name,
	// then those of FolderRelease by file name, and the documents of each file in order. They are
	// not filtered.
	Manifests []Manifest
	// Bootstrap are the manifests of FolderBootstrap, if requested by Options.
	Bootstrap []Manifest
	// Warnings are about skipped files: templates that could not be executed.
	Warnings []Fault
}

// Fault is an error in a file of a payload.
type Fault struct {
	// File is the path within the payload.
	File string
	// Document is the number of the document in the file, counted from 1. It is 0 if the fault is
	// about the whole file.
	Document int
	// Err is the cause. Its text includes neither the file nor the document.
	Err error
}

// Error returns the file, the document and the cause.
func (f Fault) Error() string {
	if f.Document > 0 {
		return fmt.Sprintf("%s: document %d: %v", f.File, f.Document, f.Err)
	}
	return fmt.Sprintf("%s: %v", f.File, f.Err)
}

// Unwrap returns the cause.
func (f Fault) Unwrap() error { return f.Err }

// Error contains all faults of a payload.
type Error struct {
	// Faults are sorted in the order of reading: directories, metadata, images, manifests. There
	// is at least one, and at most 1,000.
	Faults []Fault
}

// Error returns the faults, one per line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, fault := range e.Faults {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (e *Error) Unwrap() []error {
	faults := make([]error, len(e.Faults))
	for i, fault := range e.Faults {
		faults[i] = fault
	}
	return faults
}

// splitJoinedError returns the members of an error that errors.Join created.
func splitJoinedError(err error) []error {
	if joined := interface{ Unwrap() []error }(nil); errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
