// Package session keeps the sessions of the console: who is signed in, and the credentials with which the console
// acts for them.
//
// Sessions are in memory only. The browser has a random cookie; the store has its hash.
package session
