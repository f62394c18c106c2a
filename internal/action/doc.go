// Package action holds what a person does with Mainstay, one struct per operation: its
// fields say what is wanted, and Run(ctx) does it.
//
// It knows no flags, serves no HTTP and prints nothing: operations return values, tell
// a Progress how they go, and fail with an *report.Error that says what to do. The command
// line (internal/cli) and the console are two faces of it. It reconciles nothing: what
// the controllers do stands in the components.
package action
