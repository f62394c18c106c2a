package clusterupdate

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// Channel sets the update channel of the cluster.
type Channel struct {
	// Client is the client of the cluster.
	Client client.Client
	// Name is the name of the channel. Empty removes the channel.
	Name string
	// AllowExplicit allows a channel that does not list the cluster's release.
	AllowExplicit bool
	// Generation is the generation of the ClusterVersion that the change is based on. Zero means any.
	Generation int64
}

// Run reads the ClusterVersion, decides, and writes the channel.
func (a *Channel) Run(ctx context.Context) (*Outcome, error) {
	cv, err := readGeneration(ctx, a.Client, a.Generation)
	if err != nil {
		return nil, err
	}

	outcome, err := a.decideChannel(cv)
	if err != nil || !outcome.Changed {
		return outcome, err
	}

	return outcome, patchSpec(ctx, a.Client, cv, map[string]any{"channel": a.Name})
}

// decideChannel returns the outcome of the request, or an error if it is refused.
func (a *Channel) decideChannel(cv *configv1.ClusterVersion) (*Outcome, error) {
	known, current := cv.Status.Desired.Channels, cv.Spec.Channel
	outcome := &Outcome{Changed: true}
	switch {
	case a.Name == "" && current == "":
		return &Outcome{Message: "info: Cluster channel is already clear (no change)"}, nil
	case a.Name == current:
		return &Outcome{Message: fmt.Sprintf("info: Cluster is already in %s (no change)", current)}, nil
	case a.Name == "":
		if !a.AllowExplicit && slices.Contains(known, current) {
			return nil, fmt.Errorf("you are requesting to clear the update channel. The current channel %q is one of the available channels %s, "+
				"you must pass --allow-explicit-channel to continue", current, formatChannels(known))
		}
		outcome.Message = "Cleared the update channel"
		outcome.Warnings = append(outcome.Warnings, fmt.Sprintf("Clearing channel %q; cluster will no longer request available update recommendations.", current))
		return outcome, nil

	case slices.Contains(known, a.Name):
	case len(known) == 0:
		outcome.Warnings = append(outcome.Warnings, fmt.Sprintf("No channels known to be compatible with the current version %q; unable to validate %q. Setting the update channel to %q anyway.",
			cv.Status.Desired.Version, a.Name, a.Name))
	case !a.AllowExplicit:
		return nil, fmt.Errorf("the requested channel %q is not one of the available channels %s, you must pass --allow-explicit-channel to continue", a.Name, formatChannels(known))
	default:
		outcome.Warnings = append(outcome.Warnings, fmt.Sprintf("The requested channel %q is not one of the available channels %s. You have used --allow-explicit-channel to proceed anyway. Setting the update channel to %q.",
			a.Name, formatChannels(known), a.Name))
	}

	outcome.Message = fmt.Sprintf("Cluster channel is now %s", a.Name)
	return outcome, nil
}
