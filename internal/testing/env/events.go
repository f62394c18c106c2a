package env

import (
	"fmt"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WaitForEvent waits for an event that meets a condition. The scheme of the fixture must have events.
func (f *Fixture) WaitForEvent(what string, meets func(*eventsv1.Event) bool, options ...client.ListOption) {
	f.T.Helper()
	f.Eventually("event "+what, func() error {
		var list eventsv1.EventList
		if err := f.List(f.T.Context(), &list, options...); err != nil {
			return err
		}

		var others strings.Builder
		for i := range list.Items {
			e := &list.Items[i]
			if meets(e) {
				return nil
			}
			fmt.Fprintf(&others, "\n%s %s about %s %s/%s: %s", e.Type, e.Reason, e.Regarding.Kind, e.Regarding.Namespace, e.Regarding.Name, e.Note)
		}
		return fmt.Errorf("there are only these events:%s", others.String())
	})
}
