package dial

import "testing"

// TestResponseBuffers checks that no response uses a buffer of more than twice its size.
func TestResponseBuffers(t *testing.T) {
	for _, size := range []int{5_000, 20_000, 40_000, 100_000, 300_000, 1_000_000, 5_000_000} {
		buffer := responseBuffers.Get(size)
		if len(*buffer) != size || cap(*buffer) > 2*size {
			t.Errorf("a response of %d bytes: got a buffer of %d bytes with a capacity of %d, want at most twice the size", size, len(*buffer), cap(*buffer))
		}
		responseBuffers.Put(buffer)
	}
}
