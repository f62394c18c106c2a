package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mainstay-dev/mainstay/bench/generate"
)

// catalogSizes are the measured catalogs by the name of their size.
var catalogSizes = []struct {
	name string
	size generate.Size
}{{"10 MB", generate.MB10}, {"75 MB", generate.MB75}, {"300 MB", generate.MB300}}

// generateCatalogs generates the catalogs in separate processes, as the memory of a measured
// process counts from that of its parent.
func generateCatalogs(ctx context.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}

	for _, s := range catalogSizes {
		cmd := exec.CommandContext(ctx, self, "generate", s.name, catalogDir(dir, s.name))
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("generating a catalog of %s: %w", s.name, err)
		}
	}

	return nil
}

func catalogDir(dir, size string) string { return filepath.Join(dir, "catalog-"+size[:len(size)-3]) }

// generateCatalog generates the catalog of a size.
func generateCatalog(name, dir string) error {
	for _, s := range catalogSizes {
		if s.name == name {
			_, err := generate.Catalog(dir, s.size)
			return err
		}
	}
	return errors.New("no such size: " + name)
}

// measureOpm measures opm commands on catalogs of each size.
func measureOpm(ctx context.Context, dir string, runs int) error {
	if err := measureCommand(ctx, runs, "opm version", 0, "version"); err != nil {
		return err
	}

	for _, s := range catalogSizes {
		catalog := catalogDir(dir, s.name)
		bytes, err := totalFileSize(catalog)
		if err != nil {
			return err
		}
		for _, args := range [][]string{
			{"render", catalog, "-o", "json"}, {"render", catalog, "-o", "yaml"}, {"validate", catalog}, {"alpha", "list", "packages", catalog},
		} {
			what := "opm " + args[0]
			switch args[0] {
			case "render":
				what += " -o " + args[3]
			case "alpha":
				what += " list packages"
			}
			if err := measureCommand(ctx, runs, what+", "+s.name, bytes, args...); err != nil {
				return err
			}
		}
	}

	return nil
}

// measureCommand measures one opm command. The output is discarded. If bytes, the size of the
// input, is not zero, it also prints the rate.
func measureCommand(ctx context.Context, runs int, what string, bytes int64, args ...string) error {
	var seconds, rate, cpu, peak, anonymous samples
	for range runs {
		u, err := measureUsage(ctx, args)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}

		seconds = append(seconds, u.seconds)
		rate = append(rate, float64(bytes)/1e6/u.seconds)
		cpu = append(cpu, u.cpu)
		peak = append(peak, u.peak)
		anonymous = append(anonymous, u.anonymous)
	}

	seconds.printSummary(what, "s", 3)
	if bytes > 0 {
		rate.printSummary("  that is", "MB/s", 0)
	}

	cpu.printSummary("  processor time", "s", 3)
	anonymous.printSummary("  peak anonymous memory", "MB", 0)
	peak.printSummary("  peak memory", "MB", 0)
	return nil
}

// usage is the time in seconds and the peak memory in MB of a program, in total and anonymous.
type usage struct{ seconds, cpu, peak, anonymous float64 }

// measureUsage runs opm once.
func measureUsage(ctx context.Context, args []string) (usage, error) {
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "peak"), append([]string{filepath.Join("bin", "opm")}, args...)...)
	cmd.Stderr = os.Stderr
	reader, writer, err := os.Pipe()
	if err != nil {
		return usage{}, err
	}
	defer func() { _ = reader.Close() }() // It was only read.
	cmd.ExtraFiles = []*os.File{writer}
	began := time.Now()
	if err := errors.Join(cmd.Start(), writer.Close()); err != nil {
		return usage{}, err
	}
	if err := cmd.Wait(); err != nil {
		return usage{}, err
	}

	u := usage{seconds: secondsSince(began)}
	if _, err := fmt.Fscan(reader, &u.peak, &u.anonymous, &u.cpu); err != nil {
		return usage{}, fmt.Errorf("reading the resource usage: %w", err)
	}

	u.peak = u.peak * 1024 / 1e6
	u.anonymous = u.anonymous * 1024 / 1e6
	return u, nil
}

// totalFileSize returns the total size of the files below a folder, in bytes.
func totalFileSize(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})

	return total, err
}
