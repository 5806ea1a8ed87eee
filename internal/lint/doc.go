// Package lint holds the house in its order: a test reads every Go file of the
// module and fails where the order is broken. It has no code of its own.
//
// What is held: which of our packages may import which, and which modules of
// others; the length of files and functions; comments on packages and on
// exported names; no package for odds and ends; libraries that neither print
// nor read the environment; typed atomics; gofmt. Each rule is a function from
// a parsed file to complaints, tried on planted offences of its own.
//
// A complaint says what to do. A new package needs a row in the table of
// imports_test.go, which is the place to argue for an edge.
package lint
