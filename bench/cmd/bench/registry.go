package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// measureRegistry measures the time until `opm serve` responds, with and without a cache, and its
// memory and disk usage. It also measures a list of all bundles, which every client of a catalog
// requests.
func measureRegistry(ctx context.Context, dir string, runs int) error {
	for _, s := range catalogSizes {
		if err := measureServe(ctx, catalogDir(dir, s.name), filepath.Join(dir, "serve"), s.name, runs); err != nil {
			return err
		}
	}
	return nil
}

func measureServe(ctx context.Context, catalog, cache, name string, runs int) error {
	source, err := totalFileSize(catalog)
	if err != nil {
		return err
	}

	var cold, warm serveResult
	for range runs {
		if err := os.RemoveAll(cache); err != nil {
			return err
		}
		if err := cold.measureOnce(ctx, catalog, cache, "--cache-enforce-integrity=false"); err != nil {
			return err
		}
		// This is how an image with a filled cache is started: the cache must be valid.
		if err := warm.measureOnce(ctx, catalog, cache, "--cache-enforce-integrity=true"); err != nil {
			return err
		}
	}

	onDisk, err := totalFileSize(cache)
	if err != nil {
		return err
	}

	cold.printResult("opm serve, cold, "+name, source)
	samples{float64(onDisk) / 1e6}.printSummary("  cache on disk", "MB", 0)
	warm.printResult("opm serve, warm, "+name, source)

	return os.RemoveAll(cache)
}

// serveResult is the measurement of several servers.
type serveResult struct {
	// firstAnswer is the time from the start of the process to its first response. listBundles is
	// the time for a list of all bundles. Both are in seconds.
	firstAnswer, listBundles samples
	// peak is the peak resident memory until then, and anonymous the part of it that is not
	// backed by a file, both in MB.
	peak, anonymous samples
}

func (s *serveResult) printResult(what string, source int64) {
	s.firstAnswer.printSummary(what+", first answer", "s", 3)
	fmt.Printf("%-62s %32.0f  MB/s\n", "  that is", float64(source)/1e6/s.firstAnswer[len(s.firstAnswer)/2])
	s.peak.printSummary("  peak memory", "MB", 0)
	s.anonymous.printSummary("  anonymous memory", "MB", 0)
	s.listBundles.printSummary("  list of all bundles", "s", 3)
}

// measureOnce starts a server, sends requests to it and stops it.
func (s *serveResult) measureOnce(ctx context.Context, catalog, cache, integrity string) (err error) {
	address, err := findFreeAddress(ctx)
	if err != nil {
		return err
	}

	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}

	cmd := exec.CommandContext(ctx, filepath.Join("bin", "opm"), "serve", catalog, "--port", port, "--cache-dir", cache, integrity,
		"--pprof-addr", "", "--termination-log", os.DevNull)
	var log strings.Builder
	cmd.Stderr = &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, cmd.Process.Signal(os.Interrupt), cmd.Wait())
		if err != nil {
			err = fmt.Errorf("serving %s: %w\n%s", catalog, err, &log)
		}
	}()
	if err := waitForListener(ctx, address); err != nil {
		return err
	}

	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	client := registrypb.NewRegistryClient(connection)
	packages, err := client.ListPackages(ctx, &registrypb.ListPackageRequest{})
	if err != nil {
		return err
	}
	if _, err := packages.Recv(); err != nil {
		return err
	}

	s.firstAnswer = append(s.firstAnswer, secondsSince(began))
	peak, anonymous, err := readProcessMemory(cmd.Process.Pid)
	if err != nil {
		return err
	}

	s.peak, s.anonymous = append(s.peak, peak), append(s.anonymous, anonymous)
	began = time.Now()
	if err := listBundles(ctx, client); err != nil {
		return err
	}

	s.listBundles = append(s.listBundles, secondsSince(began))
	return nil
}

func listBundles(ctx context.Context, client registrypb.RegistryClient) error {
	stream, err := client.ListBundles(ctx, &registrypb.ListBundlesRequest{})
	for err == nil {
		_, err = stream.Recv()
	}

	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// findFreeAddress returns an address on which nothing listens.
func findFreeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// waitForListener waits until a server listens on an address, for at most a minute.
func waitForListener(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// The measured time is about 30 ms, so the interval must be short.
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server does not listen: %w", err)
		}
	}
}

// readProcessMemory returns the peak resident memory of a process, and the anonymous memory, in
// MB, on Linux.
func readProcessMemory(pid int) (peak, anonymous float64, err error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, 0, err
	}

	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kB, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch name {
		case "VmHWM":
			peak = kB * 1024 / 1e6
		case "RssAnon":
			anonymous = kB * 1024 / 1e6
		}
	}

	if peak == 0 {
		return 0, 0, errors.New("this system does not tell how much memory a process has")
	}

	return peak, anonymous, nil
}
