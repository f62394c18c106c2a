package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// unpacked is what one run of unpacking measured.
type unpacked struct {
	Seconds float64
	// PeakBytes is the most memory that the process had resident.
	PeakBytes int64
	Blobs     int
}

// measureCatalog unpacks a large catalog, each time in a process of its own that has
// one core, so that its peak memory is that of the unpacking.
func measureCatalog(ctx context.Context, dir string, runs int) error {
	catalog := catalogOf(dir, "75 MB")
	size, err := sizeOf(catalog)
	if err != nil {
		return err
	}

	self, err := os.Executable()
	if err != nil {
		return err
	}

	var rate, seconds, peak figures
	for i := range runs {
		cmd := exec.CommandContext(ctx, self, "unpack", catalog, filepath.Join(dir, fmt.Sprintf("store-%d", i)))
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}

		var result unpacked
		if err := json.Unmarshal(out, &result); err != nil {
			return err
		}

		seconds = append(seconds, result.Seconds)
		rate = append(rate, float64(size)/1e6/result.Seconds)
		peak = append(peak, float64(result.PeakBytes)/1e6)
	}

	what := fmt.Sprintf("a catalog of %.0f MB is unpacked and indexed, on one core", float64(size)/1e6)
	seconds.print(what, "s", 2)
	rate.print("  that is", "MB/s", 0)
	peak.print("  peak memory of the process", "MB", 0)

	return nil
}

// unpack unpacks one catalog and prints what it took.
func unpack(ctx context.Context, catalog, dir string) error {
	contents, err := catalogstore.Open(dir, catalogstore.Limits{})
	if err != nil {
		return err
	}

	began := time.Now()
	info, err := contents.Unpack(ctx, "bench", catalogstore.Source{Ref: "bench", Resolved: "bench"}, os.DirFS(catalog))
	if err != nil {
		return err
	}

	result := unpacked{Seconds: since(began), Blobs: info.Blobs}
	if result.PeakBytes, err = peakMemory(); err != nil {
		return err
	}

	return json.NewEncoder(os.Stdout).Encode(result)
}

// peakMemory is the most memory that this process had resident, in bytes, as Linux
// counts it.
func peakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}

	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kB, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB"), 10, 64)
			return kB * 1024, err
		}
	}

	return 0, fmt.Errorf("no VmHWM in /proc/self/status")
}
