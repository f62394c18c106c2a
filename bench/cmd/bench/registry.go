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

// measureRegistry measures how soon `opm serve` answers, without a cache and with one, and
// what it takes in memory and on disk. It also measures a list of all bundles, which every
// client of a catalog asks for.
func measureRegistry(ctx context.Context, dir string, runs int) error {
	for _, s := range sized {
		if err := measureServe(ctx, catalogOf(dir, s.name), filepath.Join(dir, "serve"), s.name, runs); err != nil {
			return err
		}
	}
	return nil
}

func measureServe(ctx context.Context, catalog, cache, name string, runs int) error {
	source, err := sizeOf(catalog)
	if err != nil {
		return err
	}

	var cold, warm served
	for range runs {
		if err := os.RemoveAll(cache); err != nil {
			return err
		}
		if err := cold.measure(ctx, catalog, cache, "--cache-enforce-integrity=false"); err != nil {
			return err
		}
		// As an image with a filled cache is started: the cache has to be right.
		if err := warm.measure(ctx, catalog, cache, "--cache-enforce-integrity=true"); err != nil {
			return err
		}
	}

	onDisk, err := sizeOf(cache)
	if err != nil {
		return err
	}

	cold.print("opm serve, cold, "+name, source)
	figures{float64(onDisk) / 1e6}.print("  cache on disk", "MB", 0)
	warm.print("opm serve, warm, "+name, source)

	return os.RemoveAll(cache)
}

// served is what was measured of servers.
type served struct {
	// answer and list are the seconds to the first answer, from the start of the process,
	// and those that a list of all bundles takes.
	answer, list figures
	// peak and anonymous are the most memory that was resident until then, and what of it
	// is no part of a file, in MB.
	peak, anonymous figures
}

func (s *served) print(what string, source int64) {
	s.answer.print(what+", first answer", "s", 3)
	fmt.Printf("%-62s %32.0f  MB/s\n", "  that is", float64(source)/1e6/s.answer[len(s.answer)/2])
	s.peak.print("  peak memory", "MB", 0)
	s.anonymous.print("  anonymous memory", "MB", 0)
	s.list.print("  list of all bundles", "s", 3)
}

// measure starts a server, asks it and ends it.
func (s *served) measure(ctx context.Context, catalog, cache, integrity string) (err error) {
	address, err := freeAddress(ctx)
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
	if err := awaitListener(ctx, address); err != nil {
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

	s.answer = append(s.answer, since(began))
	peak, anonymous, err := memoryOf(cmd.Process.Pid)
	if err != nil {
		return err
	}

	s.peak, s.anonymous = append(s.peak, peak), append(s.anonymous, anonymous)
	began = time.Now()
	if err := listBundles(ctx, client); err != nil {
		return err
	}

	s.list = append(s.list, since(began))
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

// freeAddress returns an address that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// awaitListener waits until somebody listens on an address, and fails after a minute.
func awaitListener(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// What is measured is some 30 ms.
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

// memoryOf returns the most memory that a process had resident, and what of it is no part
// of a file, in MB, as Linux counts them.
func memoryOf(pid int) (peak, anonymous float64, err error) {
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
