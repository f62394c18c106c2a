// Package archtest holds the import table of docs/architecture.md as a test: which
// room may import which, and what a pure room may not touch. It has no code of its
// own.
package archtest
