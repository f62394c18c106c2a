// Package console is the backend of the web console: the pages, the sessions of their users, and a JSON API over
// internal/action.
//
// Every request to the API server uses the credentials of the signed-in user (design/0032-console.md).
package console
