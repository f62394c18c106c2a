//go:build !linux

package run

// releaseProgramPages does nothing. Releasing memory depends on the system, and servers run on Linux.
func releaseProgramPages() error { return nil }
