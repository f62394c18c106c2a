package main

import (
	"strings"
	"testing"
)

// newWatcherOf returns a watcher that has read some lines.
func newWatcherOf(t *testing.T, lines ...string) *nodeWatcher {
	t.Helper()
	w := &nodeWatcher{last: map[string]nodeState{}, updates: map[string]*nodeUpdate{}}
	for _, line := range lines {
		s, err := parseNodeState(line)
		if err != nil {
			t.Fatal(err)
		}
		w.recordState(s)
	}

	return w
}

func TestNodesTakeTurns(t *testing.T) {
	turn := func(node string) []string {
		return []string{
			node + "||Done|old|old|uncordon-old",
			node + "|true|Working|old|new|uncordon-old",
			node + "|true|Working|old|new|drain-new",
			node + "|true|Working|new|new|drain-new",
			node + "||Done|new|new|uncordon-new",
		}
	}

	a, b := turn("a"), turn("b")
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"one after the other":    {append(append([]string{}, a...), b...), ""},
		"both at once":           {append(append([]string{}, a[:3]...), append(b, a[3:]...)...), "2 nodes were away at once"},
		"one was not updated":    {a, "node b was not cordoned"},
		"one was not uncordoned": {append(append([]string{}, a...), b[:4]...), "node b was not cordoned, drained, updated and uncordoned"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := newWatcherOf(t, test.lines...).reportUpdates([]string{"a", "b"})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case test.want == "" && strings.Count(text, "uncordoned") != 2:
				t.Errorf("got %q, want a line for each node", text)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}

	if _, err := parseNodeState("a|b"); err == nil {
		t.Error("got no error for an incomplete line, want one")
	}
}
