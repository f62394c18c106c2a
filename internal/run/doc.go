// Package run implements `mainstay run`: the flags of the servers, their managers, and the setup of their
// components.
//
// The components themselves are implemented in other packages.
package run
