// Package sampling disables the sampling of allocations in a program that usually runs for milliseconds. The
// samples of its start alone take a megabyte, for a heap profile that is rarely used.
//
// Packages without dependencies are initialized first, in the order of their paths. This package imports
// only the runtime, so that it is initialized before the packages that allocate most. Servers enable
// sampling again with Start.
package sampling

import "runtime"

// initialRate is the sampling rate at the start of the program, which $GODEBUG can set.
var initialRate = disableHeapSampling()

// disableHeapSampling sets the sampling rate to zero and returns the previous rate.
func disableHeapSampling() int {
	before := runtime.MemProfileRate
	runtime.MemProfileRate = 0
	return before
}

// Start enables the sampling of allocations.
func Start() { runtime.MemProfileRate = initialRate }
