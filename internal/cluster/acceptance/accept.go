// Package acceptance finds out whether a wanted release may be applied: it verifies its
// signature, retrieves it, reads what it holds, and asks whether the cluster is fit for it.
//
// Nothing of the release is applied here, and nothing of what is applied now is touched.
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

// Budget is how long verification and retrieval may take together.
const Budget = 4 * time.Minute

// Reasons of condition ReleaseAccepted.
const (
	ReasonRetrieve      = "RetrievePayload"
	ReasonLoad          = "LoadPayload"
	ReasonVersion       = "VerifyPayloadVersion"
	ReasonPreconditions = "PreconditionChecks"
	ReasonLoaded        = "PayloadLoaded"
)

// Reasons of the errors behind them.
const (
	reasonUnverified  = "ImageVerificationFailed"
	reasonUnretrieved = "UpdatePayloadRetrievalFailed"
	reasonIntegrity   = "UpdatePayloadIntegrity"
)

// Retriever reads release images.
type Retriever interface {
	// Retrieve returns the files of a release's image, with the folders of the payload in their
	// root. All of them are there, and are what the pull spec says, or there is an error.
	// The version of the release may be empty.
	Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error)
}

// Verifier reports whether release images may be trusted.
type Verifier interface {
	// Verify returns nil for an image that is signed as it must be. An empty digest is that
	// of an image which was named by a tag.
	Verify(ctx context.Context, digest string) error
}

// Request is a release to be accepted.
type Request struct {
	// Target is the release. An empty version is found out.
	Target configv1.Release
	// Force goes on though verification fails or a precondition stands against it.
	Force bool
	// Verifier is that of the release which the cluster is at.
	Verifier Verifier
	// Load is how the payload is read.
	Load release.Options
	// Cluster tells which manifests belong to the cluster.
	Cluster release.Cluster
	// Architecture is that of this process, as Go names it.
	Architecture string
	// Local says that the release is the one that this program is part of: it is trusted, and
	// nothing is judged.
	Local bool
	// Settled says that the release was accepted before: the cluster is at it, or on its
	// way there. Nothing is judged again.
	Settled bool

	// loaded is what an earlier judgement read.
	loaded *Accepted
}

// Accepted is a release that may be applied.
type Accepted struct {
	// Release is what the payload says of itself.
	Release configv1.Release
	// Payload is what it holds, not filtered.
	Payload *release.Payload
	// Verified reports whether its signature was verified.
	Verified bool
	// Risks tells what was passed over.
	Risks string
}

// Failure says why a release was not accepted.
type Failure struct {
	// Reason of condition ReleaseAccepted.
	Reason string
	// Cause in one word.
	Cause string
	// Message of the condition.
	Message string
	// Err is the cause with all its details.
	Err error

	// loaded is what was read before the failure.
	loaded *Accepted
}

// Error is the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Judge accepts releases. Its fields are set before it is used.
type Judge struct {
	// Retriever reads images.
	Retriever Retriever
	// ClusterVersion reads the ClusterVersion as it is when the preconditions are judged.
	ClusterVersion func(ctx context.Context) (*configv1.ClusterVersion, error)
	// Etcd reads the ClusterOperator of etcd; it gives nil where there is none.
	Etcd func(ctx context.Context) (*configv1.ClusterOperator, error)
	// Tell is told each step in the judgement of a release: the reason of an event, whether
	// it is a warning, and its text.
	Tell func(target configv1.Release, reason string, warning bool, message string)
	// Detail returns all that is known of why an image could not be verified. Nil gives the
	// error.
	Detail func(err error) string
}

// Accept judges a release: signature, content, preconditions. Its error is a *Failure.
func (j *Judge) Accept(ctx context.Context, r Request) (*Accepted, error) {
	loaded := r.loaded
	if loaded == nil {
		var failure *Failure
		if loaded, failure = j.prepare(ctx, r); failure != nil {
			return nil, failure
		}
	}

	accepted := *loaded
	if !r.Settled && !r.Local {
		risks, failure := j.judge(ctx, r, accepted.Release)
		if failure != nil {
			failure.loaded = loaded
			return nil, failure
		}
		accepted.Risks = strings.Join(nonEmpty(append([]string{accepted.Risks}, risks...)), "\n")
	}

	j.Tell(r.Target, "PayloadLoaded", false, LoadedMessage(accepted.Release, r.Architecture))
	return &accepted, nil
}

// prepare verifies and reads a release.
func (j *Judge) prepare(ctx context.Context, r Request) (*Accepted, *Failure) {
	j.Tell(r.Target, "RetrievePayload", false, RetrievingMessage(r.Target))
	files, risk, err := j.retrieve(ctx, r)
	if err != nil {
		failure := failureOf(ReasonRetrieve, "Retrieving payload failed", r.Target, err)
		j.Tell(r.Target, "RetrievePayloadFailed", true, j.detailed(r.Target, err))
		return nil, failure
	}

	j.Tell(r.Target, "LoadPayload", false, fmt.Sprintf("Loading payload version=%q image=%q", r.Target.Version, r.Target.Image))
	payload, err := load(files, r)
	if err != nil {
		failure := failureOf(ReasonLoad, "Loading payload failed", r.Target, err)
		j.Tell(r.Target, "LoadPayloadFailed", true, failure.Message)
		return nil, failure
	}

	loaded := &Accepted{Release: describe(payload, r), Payload: payload, Verified: risk == "" && !r.Local && !r.Settled, Risks: risk}
	if asked := r.Target.Version; asked != "" && asked != loaded.Release.Version {
		err := fmt.Errorf("release image version %s does not match the expected upstream version %s", loaded.Release.Version, asked)
		failure := failureOf(ReasonVersion, "Verifying payload failed", r.Target, err)
		j.Tell(r.Target, "VerifyPayloadVersionFailed", true, failure.Message)
		return nil, failure
	}

	return loaded, nil
}

func nonEmpty(texts []string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// cause returns an error a reason.
type cause struct {
	reason, text string
	err          error
}

func (c *cause) Error() string { return c.text + ": " + c.err.Error() }
func (c *cause) Unwrap() error { return c.err }

// detailed tells of a failed retrieval what is too long for a condition: why each
// signature was not good.
func (j *Judge) detailed(target configv1.Release, err error) string {
	text := err.Error()
	if c := (*cause)(nil); j.Detail != nil && errors.As(err, &c) && c.reason == reasonUnverified {
		text = c.text + ": " + j.Detail(c.err)
	}
	return described("Retrieving payload failed", target, text)
}

// retrieve verifies the image, in at most half of the time that there is, and reads it.
// The risk is that of an image that could not be verified.
func (j *Judge) retrieve(ctx context.Context, r Request) (files fs.FS, risk string, err error) {
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	if err := verify(ctx, r); err != nil {
		if !r.Force {
			return nil, "", &cause{reasonUnverified, "The update cannot be verified", err}
		}
		risk = fmt.Sprintf("Target release version=%q image=%q cannot be verified, but continuing anyway because the update was forced: %v", r.Target.Version, r.Target.Image, err)
		j.Tell(r.Target, "RetrievePayload", true, risk)
	}

	files, err = j.Retriever.Retrieve(ctx, r.Target)
	if err != nil {
		return nil, "", &cause{reasonUnretrieved, "Unable to download and prepare the update", err}
	}

	return files, risk, nil
}

func verify(ctx context.Context, r Request) error {
	if r.Local || r.Settled {
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

// load reads the payload, and refuses one that no cluster can be at.
func load(files fs.FS, r Request) (*release.Payload, error) {
	payload, err := release.Load(files, r.Load)
	if err != nil {
		return nil, &cause{reasonIntegrity, "Error loading manifests from " + r.Target.Image, err}
	}
	if err := CheckOperators(payload, r.Cluster); err != nil {
		return nil, &cause{reasonIntegrity, "Error loading manifests from " + r.Target.Image, err}
	}
	return payload, nil
}

// judge asks whether the cluster is fit for the release. It gives what is passed over.
func (j *Judge) judge(ctx context.Context, r Request, target configv1.Release) ([]string, *Failure) {
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
		j.Tell(r.Target, "PreconditionBlock", true, failure.Message)
		return nil, failure
	case blocked:
		text = "Forced through blocking failures: " + text
		j.Tell(r.Target, "PreconditionWarn", true, text)
	case text != "":
		j.Tell(r.Target, "PreconditionWarn", true, text)
	default:
		j.Tell(r.Target, "PreconditionsPassed", false, fmt.Sprintf("Preconditions passed for payload loaded version=%q image=%q", target.Version, target.Image))
	}

	risks := []string{text}
	if err == nil {
		risks = append(risks, exposure(cv, target))
	}

	return risks, nil
}

// describe is what the payload says of itself, and what is known of it beside that.
func describe(payload *release.Payload, r Request) configv1.Release {
	own := ReleaseOf(payload, r.Target.Image, r.Architecture)
	if own.URL == "" {
		own.URL = r.Target.URL
	}
	if len(own.Channels) == 0 {
		own.Channels = r.Target.Channels
	}
	return own
}

// ReleaseOf is what a payload says of itself. process is the architecture of this process,
// as Go names it.
func ReleaseOf(payload *release.Payload, image, process string) configv1.Release {
	metadata := payload.Metadata
	told := configv1.Release{Version: metadata.Version, Image: image, URL: metadata.URL(), Channels: metadata.Channels()}
	if metadata.Architecture(process) == release.ArchitectureMulti {
		told.Architecture = configv1.ClusterVersionArchitectureMulti
	}
	return told
}

// RetrievingMessage is the message of ReleaseAccepted for a release that is being judged.
func RetrievingMessage(target configv1.Release) string {
	return fmt.Sprintf("Retrieving and verifying payload version=%q image=%q", target.Version, target.Image)
}

// LoadedMessage is the message of ReleaseAccepted for a release that was accepted.
func LoadedMessage(r configv1.Release, process string) string {
	architecture := string(r.Architecture)
	if architecture == "" {
		architecture = process
	}
	return fmt.Sprintf("Payload loaded version=%q image=%q architecture=%q", r.Version, r.Image, architecture)
}

func described(what string, target configv1.Release, text string) string {
	return fmt.Sprintf("%s version=%q image=%q failure=%s", what, target.Version, target.Image, text)
}

func failureOf(reason, what string, target configv1.Release, err error) *Failure {
	failure := &Failure{Reason: reason, Err: err, Message: described(what, target, err.Error())}
	if c := (*cause)(nil); errors.As(err, &c) {
		failure.Cause = c.reason
	}
	return failure
}
