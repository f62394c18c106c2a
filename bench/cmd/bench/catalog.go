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

// unpackResult is the measurement of unpacking one catalog.
type unpackResult struct {
	Seconds float64
	// PeakBytes is the peak resident memory of the process.
	PeakBytes int64
	Blobs     int
}

// measureCatalog unpacks a large catalog several times. Each run is a separate process with one
// core, so that its peak memory is that of the unpacking.
func measureCatalog(ctx context.Context, dir string, runs int) error {
	catalog := catalogDir(dir, "75 MB")
	size, err := totalFileSize(catalog)
	if err != nil {
		return err
	}

	self, err := os.Executable()
	if err != nil {
		return err
	}

	var rate, seconds, peak samples
	for i := range runs {
		cmd := exec.CommandContext(ctx, self, "unpack", catalog, filepath.Join(dir, fmt.Sprintf("store-%d", i)))
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}

		var result unpackResult
		if err := json.Unmarshal(out, &result); err != nil {
			return err
		}

		seconds = append(seconds, result.Seconds)
		rate = append(rate, float64(size)/1e6/result.Seconds)
		peak = append(peak, float64(result.PeakBytes)/1e6)
	}

	what := fmt.Sprintf("a catalog of %.0f MB is unpacked and indexed, on one core", float64(size)/1e6)
	seconds.printSummary(what, "s", 2)
	rate.printSummary("  that is", "MB/s", 0)
	peak.printSummary("  peak memory of the process", "MB", 0)

	return nil
}

// unpackCatalog unpacks one catalog and prints the measurement.
func unpackCatalog(ctx context.Context, catalog, dir string) error {
	contents, err := catalogstore.Open(dir, catalogstore.Limits{})
	if err != nil {
		return err
	}

	began := time.Now()
	info, err := contents.Unpack(ctx, "bench", catalogstore.Source{Ref: "bench", Resolved: "bench"}, os.DirFS(catalog))
	if err != nil {
		return err
	}

	result := unpackResult{Seconds: secondsSince(began), Blobs: info.Blobs}
	if result.PeakBytes, err = readPeakMemory(); err != nil {
		return err
	}

	return json.NewEncoder(os.Stdout).Encode(result)
}

// readPeakMemory returns the peak resident memory of this process in bytes, on Linux.
func readPeakMemory() (int64, error) {
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
