package main

import (
	"slices"
	"strings"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// refusalTexts are parts of messages of refused extensions whose installation is retried. In this
// scenario the retries cannot succeed.
var refusalTexts = []string{
	"authorization evaluation error: ", "no bundles found", "upgrade safety validation",
	missingDependencyText, "the dependencies of bundle",
}

// missingDependencyText is a part of the message for a bundle with missing dependencies.
const missingDependencyText = "dependency declared via property"

// judgeOutcome returns the outcome for an extension and a requested version. It is empty while
// there is no outcome yet; the second result is then the current state.
func judgeOutcome(extension *olmv1.ClusterExtension, version string) (outcome, string) {
	progressing := findCondition(extension.Status.Conditions, olmv1.TypeProgressing)
	if progressing.ObservedGeneration != extension.Generation {
		return "", "it was not looked at yet"
	}

	message := progressing.Message
	switch {
	case progressing.Status == "False":
		return refused, message
	case strings.Contains(message, "requires the following permissions"):
		return unexpected, message
	case slices.ContainsFunc(refusalTexts, func(words string) bool { return strings.Contains(message, words) }):
		return refused, message
	case progressing.Reason != olmv1.ReasonSucceeded:
		return "", progressing.Reason + ": " + message
	}

	if extension.Status.Install == nil || extension.Status.Install.Bundle.Version != version {
		return "", "another version is installed"
	}
	if available := findCondition(extension.Status.Conditions, olmv1.TypeAvailable); available.Status != "True" {
		return "", "not available: " + available.Message
	}

	return installed, ""
}
