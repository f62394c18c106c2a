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

// shellCommand returns a command that runs a script. Scripts that wait do so for longer than any test takes.
func shellCommand(t *testing.T, name, script string) Command {
	t.Helper()
	return Command{
		Name: name, Path: "/bin/sh", Args: []string{"sh", "-c", script},
		LogFile: filepath.Join(t.TempDir(), name+".log"), StopGrace: time.Minute,
	}
}

const waitForever = "while :; do sleep 0.01; done"

func startProcess(t *testing.T, command Command) *Process {
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

func TestDiedErrorHasEndOfLog(t *testing.T) {
	process := startProcess(t, shellCommand(t, "etcd", "seq 1 100; echo no space left on device >&2; exit 3"))
	died := process.Died()
	if died.Err.Error() != "exit status 3" || died.Component != "etcd" {
		t.Errorf("got %v, want that etcd ended with exit status 3", died)
	}

	lines := strings.Split(died.LogEnd, "\n")
	if len(lines) != maxDiedLogLines || lines[len(lines)-1] != "no space left on device" {
		t.Errorf("got the end of the log %q, want %d lines with the error last", lines, maxDiedLogLines)
	}
}

func TestDiedErrorWithoutLogAndExitError(t *testing.T) {
	died := startProcess(t, shellCommand(t, "etcd", "exit 0")).Died()
	if message := died.Error(); !strings.Contains(message, "exit status 0") || !strings.Contains(message, "is empty") {
		t.Error(message)
	}
}

func TestStopSendsSIGTERMBeforeSIGKILL(t *testing.T) {
	asked := shellCommand(t, "asked", `trap 'echo stopped; exit 0' TERM; echo running; `+waitForever)
	process := startProcess(t, asked)
	waitForLog(t, asked.LogFile, "running")
	process.Stop(context.Background())
	if log := Tail(asked.LogFile, 1); log != "stopped" {
		t.Errorf("got the last line of the log %q, want stopped", log)
	}

	deaf := shellCommand(t, "deaf", `trap '' TERM; echo running; `+waitForever)
	deaf.StopGrace = time.Millisecond
	process = startProcess(t, deaf)
	waitForLog(t, deaf.LogFile, "running")
	process.Stop(context.Background())
	if err := process.Died().Err; err.Error() != "signal: killed" {
		t.Errorf("got %v for a process that ignores SIGTERM, want signal: killed", err)
	}
}

func waitForLog(t *testing.T, path, text string) {
	t.Helper()
	for !strings.Contains(Tail(path, 10), text) {
		time.Sleep(time.Millisecond) // The timeout of the test run ends the wait if the text never appears.
	}
}

func TestWaitReady(t *testing.T) {
	checks := 0
	process := startProcess(t, shellCommand(t, "slow", waitForever))
	err := process.WaitReady(context.Background(), func(context.Context) error {
		if checks++; checks < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || checks != 3 {
		t.Errorf("got %d checks and error %v, want 3 checks and no error", checks, err)
	}

	never := func(context.Context) error { return errors.New("still loading") }
	var died *DiedError
	if err := startProcess(t, shellCommand(t, "dies", "exit 1")).WaitReady(context.Background(), never); !errors.As(err, &died) {
		t.Errorf("got %v for a process that dies, want a DiedError", err)
	}

	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(context.Background())
	err = process.WaitReady(ctx, func(ctx context.Context) error {
		cancel(gaveUp)
		return never(ctx)
	})
	if !errors.Is(err, gaveUp) || !strings.Contains(err.Error(), "still loading") {
		t.Errorf("got %v, want the cause and the error of the latest check", err)
	}
}

func TestGroupReportsOnlyFirstDeath(t *testing.T) {
	var group Group
	gate := filepath.Join(t.TempDir(), "gate")
	if _, err := group.Start(shellCommand(t, "lives", waitForever)); err != nil {
		t.Fatal(err)
	}
	if _, err := group.Start(shellCommand(t, "dies", "while ! test -e "+gate+"; do sleep 0.01; done; exit 4")); err != nil {
		t.Fatal(err)
	}

	select {
	case died := <-group.Died():
		t.Fatalf("got %v before any child ended, want nothing", died)
	default:
	}

	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if died := <-group.Died(); died.Component != "dies" || died.Err.Error() != "exit status 4" {
		t.Errorf("got %v, want that dies ended with exit status 4", died)
	}

	group.Stop(context.Background())
	select {
	case died := <-group.Died():
		t.Errorf("got %v for a child that was stopped, want nothing", died)
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
		{"fewer than requested", "a\nb\n", 3, "a\nb"},
		{"as many", "a\nb\n", 2, "a\nb"},
		{"more", "a\nb\nc\n", 2, "b\nc"},
		{"no line break at the end", "a\nb\nc", 1, "c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(lastLines([]byte(test.content), test.lines)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTailReadsTheEndOfALargeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if Tail(path, 1) != "" {
		t.Error("got lines of a file that does not exist, want none")
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 3*maxTailBytes)+"\nthe end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Tail(path, 1); got != "the end" {
		t.Errorf("got %.40q, want the end", got)
	}
	if got := Tail(path, 5); len(got) >= maxTailBytes {
		t.Errorf("got %d bytes of a line that is longer than the limit, want fewer than %d", len(got), maxTailBytes)
	}
}
