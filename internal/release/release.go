// Package release reads release payloads: the manifests of a whole cluster, the images
// that they run, what the release says of itself, which of the manifests belong to a
// cluster, and in which order they are applied.
//
// A payload has two folders. "manifests" holds the manifests of the operator that applies
// the payload, which are templates; "release-manifests" holds everybody else's, and the
// files image-references and release-metadata.
//
// It is pure: files in, values out. It neither pulls nor builds images, judges no
// signature and applies nothing; how an object is merged into a cluster and when it is
// ready is the business of those who apply it.
package release

import (
	"errors"
	"fmt"
	"strings"
)

// Folders and files of a payload.
const (
	// FolderOwn holds the manifests of the operator that applies the payload.
	FolderOwn = "manifests"
	// FolderRelease holds all other manifests.
	FolderRelease = "release-manifests"
	// FolderBootstrap holds what runs the operator before there is a cluster that could: the
	// manifests of its Pod. Only a machine that makes a cluster reads it.
	FolderBootstrap = "bootstrap"
	// FileImages lists the images of the release.
	FileImages = FolderRelease + "/image-references"
	// FileMetadata holds what the release says of itself.
	FileMetadata = FolderRelease + "/release-metadata"
)

// Limits on what is read. A large payload has about 1,000 manifests and 30 MiB, the
// deepest CRD schema 34 levels, and an API server takes no object above 1.5 MiB; each
// limit leaves several times that. image-references of 200 images has 150 KiB.
const (
	maxFileBytes     = 8 << 20
	maxMetadataBytes = 1 << 20 // of image-references, and of release-metadata
	maxTotalBytes    = 128 << 20
	maxFiles         = 10_000
	maxManifests     = 20_000
	maxDepth         = 200
)

// maxFaults is how many faults are told: more than anybody reads, and few enough to keep.
const maxFaults = 1000

// Payload is the content of a release image.
type Payload struct {
	// Metadata is what the release says of itself.
	Metadata Metadata
	// Images are the images of the release.
	Images ImageReferences
	// Manifests are all manifests in the order of the payload: those of FolderOwn by file
	// name, then those of FolderRelease by file name, each file's documents as they stand.
	// They are not filtered.
	Manifests []Manifest
	// Bootstrap are the manifests of FolderBootstrap, if Options asked for them.
	Bootstrap []Manifest
	// Warnings are about files that were passed over: templates that could not be executed.
	Warnings []Fault
}

// Fault is something wrong with a file of a payload.
type Fault struct {
	// File is the path within the payload.
	File string
	// Document counts the documents of the file from 1. It is 0 when the fault is about
	// the whole file.
	Document int
	// Err is what is wrong. It names neither the file nor the document.
	Err error
}

// Error names the file, the document and what is wrong.
func (f Fault) Error() string {
	if f.Document > 0 {
		return fmt.Sprintf("%s: document %d: %v", f.File, f.Document, f.Err)
	}
	return fmt.Sprintf("%s: %v", f.File, f.Err)
}

// Unwrap returns what is wrong.
func (f Fault) Unwrap() error { return f.Err }

// Error tells all that is wrong with a payload.
type Error struct {
	// Faults are in the order in which the files are read: folders, metadata, images,
	// manifests. There is at least one, and at most 1,000.
	Faults []Fault
}

// Error returns the faults, one in each line.
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

// split takes an error apart that errors.Join made.
func split(err error) []error {
	if joined := interface{ Unwrap() []error }(nil); errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
