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

// sized are the catalogs that are measured, by the name of their size.
var sized = []struct {
	name string
	size generate.Size
}{{"10 MB", generate.MB10}, {"75 MB", generate.MB75}, {"300 MB", generate.MB300}}

// generateAll makes the catalogs, in processes of their own: the memory of those that
// are measured is counted from that of this one.
func generateAll(ctx context.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}

	for _, s := range sized {
		cmd := exec.CommandContext(ctx, self, "generate", s.name, catalogOf(dir, s.name))
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("generating a catalog of %s: %w", s.name, err)
		}
	}

	return nil
}

func catalogOf(dir, size string) string { return filepath.Join(dir, "catalog-"+size[:len(size)-3]) }

// generateOne makes the catalog of a size.
func generateOne(name, dir string) error {
	for _, s := range sized {
		if s.name == name {
			_, err := generate.Catalog(dir, s.size)
			return err
		}
	}
	return errors.New("no such size: " + name)
}

// measureOpm measures commands of opm on catalogs of each size.
func measureOpm(ctx context.Context, dir string, runs int) error {
	if err := measureCommand(ctx, runs, "opm version", 0, "version"); err != nil {
		return err
	}

	for _, s := range sized {
		catalog := catalogOf(dir, s.name)
		bytes, err := sizeOf(catalog)
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

// measureCommand measures one command of opm. Its output goes to the null device.
// With the size of its input, in bytes, the rate is printed as well.
func measureCommand(ctx context.Context, runs int, what string, bytes int64, args ...string) error {
	var seconds, rate, cpu, peak figures
	for range runs {
		u, err := use(ctx, args)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}

		seconds = append(seconds, u.seconds)
		rate = append(rate, float64(bytes)/1e6/u.seconds)
		cpu = append(cpu, u.cpu)
		peak = append(peak, u.peak)
	}

	seconds.print(what, "s", 3)
	if bytes > 0 {
		rate.print("  that is", "MB/s", 0)
	}

	cpu.print("  processor time", "s", 3)
	peak.print("  peak memory", "MB", 0)
	return nil
}

// used is what a program took: seconds, and the most memory in MB.
type used struct{ seconds, cpu, peak float64 }

// use runs opm once.
func use(ctx context.Context, args []string) (used, error) {
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "peak"), append([]string{filepath.Join("bin", "opm")}, args...)...)
	cmd.Stderr = os.Stderr
	reader, writer, err := os.Pipe()
	if err != nil {
		return used{}, err
	}

	defer func() { _ = reader.Close() }() // it was only read
	cmd.ExtraFiles = []*os.File{writer}
	began := time.Now()
	if err := errors.Join(cmd.Start(), writer.Close()); err != nil {
		return used{}, err
	}
	if err := cmd.Wait(); err != nil {
		return used{}, err
	}

	u := used{seconds: since(began)}
	if _, err := fmt.Fscan(reader, &u.peak, &u.cpu); err != nil {
		return used{}, fmt.Errorf("reading what it took: %w", err)
	}

	u.peak = u.peak * 1024 / 1e6
	return u, nil
}

// sizeOf is how many bytes the files below a folder have.
func sizeOf(dir string) (int64, error) {
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
