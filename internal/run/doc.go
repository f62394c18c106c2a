// Package run is `mainstay run`: the flags of the servers, the manager that they run
// in, and which components each of them has.
//
// What a component does stands in the component; here it is only put together.
package run
