package supervise

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shell returns a command that runs a script. Scripts that wait do so for longer than any test takes.
func shell(t *testing.T, name, script string) Command {
	t.Helper()
	return Command{
		Name: name, Path: "/bin/sh", Args: []string{"sh", "-c", script},
		LogFile: filepath.Join(t.TempDir(), name+".log"), StopGrace: time.Minute,
	}
}

const waits = "while :; do sleep 0.01; done"

func start(t *testing.T, command Command) *Process {
	t.Helper()
	process, err := Start(command)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		process.StopGrace = 0
		process.Stop(context.Background())
	})
	return process
}

func TestADeathTellsTheEndOfTheLog(t *testing.T) {
	process := start(t, shell(t, "etcd", "seq 1 100; echo no space left on device >&2; exit 3"))
	died := process.Died()
	if died.Err.Error() != "exit status 3" || died.Component != "etcd" {
		t.Errorf("died: %v", died)
	}

	lines := strings.Split(died.LogEnd, "\n")
	if len(lines) != diedLines || lines[len(lines)-1] != "no space left on device" {
		t.Errorf("the end of the log: %q, want %d lines with the error last", lines, diedLines)
	}
}

func TestADeathWithoutALogOrAnError(t *testing.T) {
	died := start(t, shell(t, "etcd", "exit 0")).Died()
	if message := died.Error(); !strings.Contains(message, "exit status 0") || !strings.Contains(message, "is empty") {
		t.Error(message)
	}
}

func TestStopAsksBeforeItKills(t *testing.T) {
	asked := shell(t, "asked", `trap 'echo stopped; exit 0' TERM; echo running; `+waits)
	process := start(t, asked)
	waitForLog(t, asked.LogFile, "running")
	process.Stop(context.Background())
	if log := Tail(asked.LogFile, 1); log != "stopped" {
		t.Errorf("the log ends with %q, want the trap's word", log)
	}

	deaf := shell(t, "deaf", `trap '' TERM; echo running; `+waits)
	deaf.StopGrace = time.Millisecond
	process = start(t, deaf)
	waitForLog(t, deaf.LogFile, "running")
	process.Stop(context.Background())
	if err := process.Died().Err; err.Error() != "signal: killed" {
		t.Errorf("a process that does not listen ended with %v", err)
	}
}

func waitForLog(t *testing.T, path, text string) {
	t.Helper()
	for !strings.Contains(Tail(path, 10), text) {
		time.Sleep(time.Millisecond) // The test's own timeout ends a wait in vain.
	}
}

func TestWaitReady(t *testing.T) {
	questions := 0
	process := start(t, shell(t, "slow", waits))
	err := process.WaitReady(context.Background(), func(context.Context) error {
		if questions++; questions < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || questions != 3 {
		t.Errorf("%d questions, error %v", questions, err)
	}

	never := func(context.Context) error { return errors.New("still loading") }
	var died *DiedError
	if err := start(t, shell(t, "dies", "exit 1")).WaitReady(context.Background(), never); !errors.As(err, &died) {
		t.Errorf("a process that dies gives %v, want a DiedError", err)
	}

	tired := errors.New("tired of waiting")
	ctx, cancel := context.WithCancelCause(context.Background())
	err = process.WaitReady(ctx, func(ctx context.Context) error {
		cancel(tired)
		return never(ctx)
	})
	if !errors.Is(err, tired) || !strings.Contains(err.Error(), "still loading") {
		t.Errorf("giving up gives %v, want the cause and the latest answer", err)
	}
}

func TestGroupTellsTheFirstDeathAlone(t *testing.T) {
	var group Group
	gate := filepath.Join(t.TempDir(), "gate")
	if _, err := group.Start(shell(t, "lives", waits)); err != nil {
		t.Fatal(err)
	}
	if _, err := group.Start(shell(t, "dies", "while ! test -e "+gate+"; do sleep 0.01; done; exit 4")); err != nil {
		t.Fatal(err)
	}

	select {
	case died := <-group.Died():
		t.Fatalf("died before its time: %v", died)
	default:
	}

	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if died := <-group.Died(); died.Component != "dies" || died.Err.Error() != "exit status 4" {
		t.Errorf("died: %v", died)
	}

	group.Stop(context.Background())
	select {
	case died := <-group.Died():
		t.Errorf("what was asked to stop counts as dead: %v", died)
	default:
	}
}

func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		name, content string
		lines         int
		want          string
	}{
		{"empty", "", 2, ""},
		{"line breaks alone", "\n\n", 2, ""},
		{"fewer than asked for", "a\nb\n", 3, "a\nb"},
		{"as many", "a\nb\n", 2, "a\nb"},
		{"more", "a\nb\nc\n", 2, "b\nc"},
		{"no line break at the end", "a\nb\nc", 1, "c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(lastLines([]byte(test.content), test.lines)); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestTailReadsTheEndOfALargeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if Tail(path, 1) != "" {
		t.Error("a file that is not there has an end")
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 3*tailBytes)+"\nthe end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Tail(path, 1); got != "the end" {
		t.Errorf("%.40q", got)
	}
	if got := Tail(path, 5); len(got) >= tailBytes {
		t.Errorf("%d bytes of a line that is longer than the bound", len(got))
	}
}
