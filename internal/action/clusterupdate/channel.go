package clusterupdate

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// Channel chooses the channel of updates that the cluster follows.
type Channel struct {
	// Client reaches the cluster.
	Client client.Client
	// Name of the channel. Empty follows none.
	Name string
	// AllowExplicit also takes a channel that the cluster's release is not known to be in.
	AllowExplicit bool
}

// Run reads the ClusterVersion, decides, and writes the channel.
func (a *Channel) Run(ctx context.Context) (*Outcome, error) {
	cv, err := Read(ctx, a.Client)
	if err != nil {
		return nil, err
	}

	outcome, err := a.decide(cv)
	if err != nil || !outcome.Changed {
		return outcome, err
	}

	return outcome, write(ctx, a.Client, cv, map[string]any{"channel": a.Name})
}

func (a *Channel) decide(cv *configv1.ClusterVersion) (*Outcome, error) {
	known, now := cv.Status.Desired.Channels, cv.Spec.Channel
	outcome := &Outcome{Changed: true}
	switch {
	case a.Name == "" && now == "":
		return &Outcome{Message: "info: Cluster channel is already clear (no change)"}, nil
	case a.Name == now:
		return &Outcome{Message: fmt.Sprintf("info: Cluster is already in %s (no change)", now)}, nil
	case a.Name == "":
		if !a.AllowExplicit && slices.Contains(known, now) {
			return nil, fmt.Errorf("you are requesting to clear the update channel. The current channel %q is one of the available channels %s, "+
				"you must pass --allow-explicit-channel to continue", now, channelList(known))
		}
		outcome.Message = "Cleared the update channel"
		outcome.Warnings = append(outcome.Warnings, fmt.Sprintf("Clearing channel %q; cluster will no longer request available update recommendations.", now))
		return outcome, nil

	case slices.Contains(known, a.Name):
	case len(known) == 0:
		outcome.Warnings = append(outcome.Warnings, fmt.Sprintf("No channels known to be compatible with the current version %q; unable to validate %q. Setting the update channel to %q anyway.",
			cv.Status.Desired.Version, a.Name, a.Name))
	case !a.AllowExplicit:
		return nil, fmt.Errorf("the requested channel %q is not one of the available channels %s, you must pass --allow-explicit-channel to continue", a.Name, channelList(known))
	default:
		outcome.Warnings = append(outcome.Warnings, fmt.Sprintf("The requested channel %q is not one of the available channels %s. You have used --allow-explicit-channel to proceed anyway. Setting the update channel to %q.",
			a.Name, channelList(known), a.Name))
	}

	outcome.Message = fmt.Sprintf("Cluster channel is now %s", a.Name)
	return outcome, nil
}
