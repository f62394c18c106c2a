// Package sampling keeps the runtime from sampling allocations in a program that most
// often ends after milliseconds: the samples of its start alone, for a profile of the heap
// that nobody asks for, take a megabyte.
//
// Packages are initialised in the order of their paths, those first that need no other.
// So this one imports nothing but the runtime, and comes before what allocates most. It
// is not for servers, which set the rate again before they begin.
package sampling

import "runtime"

// rate is what the runtime began with: $GODEBUG can set it.
var rate = stop()

func stop() int {
	before := runtime.MemProfileRate
	runtime.MemProfileRate = 0
	return before
}

// Start has allocations sampled from now on.
func Start() { runtime.MemProfileRate = rate }
