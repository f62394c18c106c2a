// Package acceptance decides whether a wanted release may be applied. It verifies the signature
// of the release, retrieves and loads its payload, and checks the preconditions of the cluster.
//
// It applies nothing and does not affect the release that is applied now.
package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/precondition"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Budget is the timeout of verification and retrieval together.
const Budget = 4 * time.Minute

// Reasons of the ReleaseAccepted condition.
const (
	ReasonRetrieve      = "RetrievePayload"
	ReasonLoad          = "LoadPayload"
	ReasonVersion       = "VerifyPayloadVersion"
	ReasonPreconditions = "PreconditionChecks"
	ReasonLoaded        = "PayloadLoaded"
)

// Reasons of the underlying errors.
const (
	reasonUnverified  = "ImageVerificationFailed"
	reasonUnretrieved = "UpdatePayloadRetrievalFailed"
	reasonIntegrity   = "UpdatePayloadIntegrity"
)

// Retriever retrieves the files of release images.
type Retriever interface {
	// Retrieve returns the files of a release image, with the directories of the payload in the
	// root. The files are complete and match the digest of the pull spec, or there is an error.
	// The version of the release may be empty.
	Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error)
}

// Verifier verifies the signatures of release images.
type Verifier interface {
	// Verify returns nil if the image with a digest has a trusted signature. The digest is empty
	// if the image is named by a tag.
	Verify(ctx context.Context, digest string) error
}

// Request is a request to accept a release.
type Request struct {
	// Target is the release. If its version is empty, the version of the payload is used.
	Target configv1.Release
	// Force accepts the release even if verification or a blocking precondition fails.
	Force bool
	// Verifier is the verifier that the current release configures.
	Verifier Verifier
	// Load are the options for loading the payload.
	Load release.Options
	// Cluster selects the manifests that belong to the cluster.
	Cluster release.Cluster
	// Architecture is the architecture of this process, as a GOARCH value.
	Architecture string
	// IsOwnRelease is true if this program is part of the release. The release is trusted and
	// preconditions are not checked.
	IsOwnRelease bool
	// AlreadyAccepted is true if the release was accepted before, and the cluster is at it or being
	// updated to it. Signature and preconditions are not checked again.
	AlreadyAccepted bool

	// loaded is the result of an earlier attempt.
	loaded *Accepted
}

// Accepted is a release that may be applied.
type Accepted struct {
	// Release is the release as described by its payload.
	Release configv1.Release
	// Payload is the unfiltered payload.
	Payload *release.Payload
	// Verified is true if the signature was verified.
	Verified bool
	// Risks describes the failed checks that were overridden, and the accepted risks.
	Risks string
}

// Failure is the reason why a release was not accepted.
type Failure struct {
	// Reason is the reason of the ReleaseAccepted condition.
	Reason string
	// Cause is the CamelCase reason of the underlying error.
	Cause string
	// Message is the message of the condition.
	Message string
	// Err is the underlying error with all details.
	Err error

	// loaded is the release that was loaded before the failure.
	loaded *Accepted
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the underlying error.
func (f *Failure) Unwrap() error { return f.Err }

// Judge decides whether releases are accepted. Its fields must be set before it is used.
type Judge struct {
	// Retriever retrieves images.
	Retriever Retriever
	// ClusterVersion reads the current ClusterVersion before the preconditions are checked.
	ClusterVersion func(ctx context.Context) (*configv1.ClusterVersion, error)
	// Etcd reads the ClusterOperator of etcd; it returns nil if there is none.
	Etcd func(ctx context.Context) (*configv1.ClusterOperator, error)
	// RecordStep is called for each step: with the reason of an event, whether it is a warning, and its
	// text.
	RecordStep func(target configv1.Release, reason string, warning bool, message string)
	// DescribeError returns all details of a failed verification. If nil, the error text is used.
	DescribeError func(err error) string
}

// Accept verifies, loads and checks a release. Its error is a *Failure.
func (j *Judge) Accept(ctx context.Context, r Request) (*Accepted, error) {
	loaded := r.loaded
	if loaded == nil {
		var failure *Failure
		if loaded, failure = j.prepareRelease(ctx, r); failure != nil {
			return nil, failure
		}
	}

	accepted := *loaded
	if !r.AlreadyAccepted && !r.IsOwnRelease {
		risks, failure := j.checkPreconditions(ctx, r, accepted.Release)
		if failure != nil {
			failure.loaded = loaded
			return nil, failure
		}
		accepted.Risks = strings.Join(removeEmpty(append([]string{accepted.Risks}, risks...)), "\n")
	}

	j.RecordStep(r.Target, "PayloadLoaded", false, LoadedMessage(accepted.Release, r.Architecture))
	return &accepted, nil
}

// prepareRelease verifies, retrieves and loads a release.
func (j *Judge) prepareRelease(ctx context.Context, r Request) (*Accepted, *Failure) {
	j.RecordStep(r.Target, "RetrievePayload", false, RetrievingMessage(r.Target))
	files, risk, err := j.verifyAndRetrieve(ctx, r)
	if err != nil {
		failure := newFailure(ReasonRetrieve, "Retrieving payload failed", r.Target, err)
		j.RecordStep(r.Target, "RetrievePayloadFailed", true, j.describeRetrievalError(r.Target, err))
		return nil, failure
	}

	j.RecordStep(r.Target, "LoadPayload", false, fmt.Sprintf("Loading payload version=%q image=%q", r.Target.Version, r.Target.Image))
	payload, err := loadPayload(files, r)
	if err != nil {
		failure := newFailure(ReasonLoad, "Loading payload failed", r.Target, err)
		j.RecordStep(r.Target, "LoadPayloadFailed", true, failure.Message)
		return nil, failure
	}

	loaded := &Accepted{Release: describeRelease(payload, r), Payload: payload, Verified: risk == "" && !r.IsOwnRelease && !r.AlreadyAccepted, Risks: risk}
	if asked := r.Target.Version; asked != "" && asked != loaded.Release.Version {
		err := fmt.Errorf("release image version %s does not match the expected upstream version %s", loaded.Release.Version, asked)
		failure := newFailure(ReasonVersion, "Verifying payload failed", r.Target, err)
		j.RecordStep(r.Target, "VerifyPayloadVersionFailed", true, failure.Message)
		return nil, failure
	}

	return loaded, nil
}

func removeEmpty(texts []string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// causeError is an error with a reason.
type causeError struct {
	reason, text string
	err          error
}

func (c *causeError) Error() string { return c.text + ": " + c.err.Error() }
func (c *causeError) Unwrap() error { return c.err }

// describeRetrievalError describes a failed retrieval with the details that are too long for a
// condition, such as why each signature was rejected.
func (j *Judge) describeRetrievalError(target configv1.Release, err error) string {
	text := err.Error()
	if c := (*causeError)(nil); j.DescribeError != nil && errors.As(err, &c) && c.reason == reasonUnverified {
		text = c.text + ": " + j.DescribeError(c.err)
	}
	return formatFailure("Retrieving payload failed", target, text)
}

// verifyAndRetrieve verifies the image, in at most half of the budget, and retrieves its files.
// risk describes a failed verification that was overridden.
func (j *Judge) verifyAndRetrieve(ctx context.Context, r Request) (files fs.FS, risk string, err error) {
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	if err := verifyImage(ctx, r); err != nil {
		if !r.Force {
			return nil, "", &causeError{reasonUnverified, "The update cannot be verified", err}
		}
		risk = fmt.Sprintf("Target release version=%q image=%q cannot be verified, but continuing anyway because the update was forced: %v", r.Target.Version, r.Target.Image, err)
		j.RecordStep(r.Target, "RetrievePayload", true, risk)
	}

	files, err = j.Retriever.Retrieve(ctx, r.Target)
	if err != nil {
		return nil, "", &causeError{reasonUnretrieved, "Unable to download and prepare the update", err}
	}

	return files, risk, nil
}

func verifyImage(ctx context.Context, r Request) error {
	if r.IsOwnRelease || r.AlreadyAccepted {
		return nil
	}

	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}

	_, digest, _ := strings.Cut(r.Target.Image, "@")
	return r.Verifier.Verify(ctx, digest)
}

// loadPayload loads the payload and checks that a cluster can run it.
func loadPayload(files fs.FS, r Request) (*release.Payload, error) {
	payload, err := release.Load(files, r.Load)
	if err != nil {
		return nil, &causeError{reasonIntegrity, "Error loading manifests from " + r.Target.Image, err}
	}
	if err := CheckOperators(payload, r.Cluster); err != nil {
		return nil, &causeError{reasonIntegrity, "Error loading manifests from " + r.Target.Image, err}
	}
	return payload, nil
}

// checkPreconditions checks whether the cluster can be updated to the release. It returns texts
// about overridden checks and accepted risks.
func (j *Judge) checkPreconditions(ctx context.Context, r Request, target configv1.Release) ([]string, *Failure) {
	cv, err := j.ClusterVersion(ctx)
	findings := precondition.Unreadable(err)
	if err == nil {
		etcd, err := j.Etcd(ctx)
		findings = precondition.Check(precondition.Input{ClusterVersion: cv, Target: target, Etcd: etcd, EtcdError: err})
	}

	text, blocked := precondition.Verdict(findings)
	switch {
	case blocked && !r.Force:
		failure := &Failure{
			Reason: ReasonPreconditions, Cause: precondition.ReasonFailed, Err: errors.New(text),
			Message: fmt.Sprintf("Preconditions failed for payload loaded version=%q image=%q: %s", target.Version, target.Image, text),
		}
		j.RecordStep(r.Target, "PreconditionBlock", true, failure.Message)
		return nil, failure
	case blocked:
		text = "Forced through blocking failures: " + text
		j.RecordStep(r.Target, "PreconditionWarn", true, text)
	case text != "":
		j.RecordStep(r.Target, "PreconditionWarn", true, text)
	default:
		j.RecordStep(r.Target, "PreconditionsPassed", false, fmt.Sprintf("Preconditions passed for payload loaded version=%q image=%q", target.Version, target.Image))
	}

	risks := []string{text}
	if err == nil {
		risks = append(risks, describeAcceptedRisks(cv, target))
	}

	return risks, nil
}

// describeRelease returns the release as described by its payload, completed by the request.
func describeRelease(payload *release.Payload, r Request) configv1.Release {
	own := ReleaseOf(payload, r.Target.Image, r.Architecture)
	if own.URL == "" {
		own.URL = r.Target.URL
	}
	if len(own.Channels) == 0 {
		own.Channels = r.Target.Channels
	}
	return own
}

// ReleaseOf returns the release that a payload describes. process is the architecture of this
// process, as a GOARCH value.
func ReleaseOf(payload *release.Payload, image, process string) configv1.Release {
	metadata := payload.Metadata
	result := configv1.Release{Version: metadata.Version, Image: image, URL: metadata.URL(), Channels: metadata.Channels()}
	if metadata.Architecture(process) == release.ArchitectureMulti {
		result.Architecture = configv1.ClusterVersionArchitectureMulti
	}
	return result
}

// RetrievingMessage returns the message of ReleaseAccepted for a release that is being checked.
func RetrievingMessage(target configv1.Release) string {
	return fmt.Sprintf("Retrieving and verifying payload version=%q image=%q", target.Version, target.Image)
}

// LoadedMessage returns the message of ReleaseAccepted for an accepted release.
func LoadedMessage(r configv1.Release, process string) string {
	architecture := string(r.Architecture)
	if architecture == "" {
		architecture = process
	}
	return fmt.Sprintf("Payload loaded version=%q image=%q architecture=%q", r.Version, r.Image, architecture)
}

func formatFailure(what string, target configv1.Release, text string) string {
	return fmt.Sprintf("%s version=%q image=%q failure=%s", what, target.Version, target.Image, text)
}

func newFailure(reason, what string, target configv1.Release, err error) *Failure {
	failure := &Failure{Reason: reason, Err: err, Message: formatFailure(what, target, err.Error())}
	if c := (*causeError)(nil); errors.As(err, &c) {
		failure.Cause = c.reason
	}
	return failure
}
