// Package archtest checks that the code follows docs/architecture.md: which package may import which, what pure
// packages and the program opm do without, and that every dependency has its reason. It has no code besides its tests.
package archtest
