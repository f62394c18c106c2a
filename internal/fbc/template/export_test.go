package template

// ReadAtMost is for tests of the limit, which do not read as much as it allows.
var ReadAtMost = readInputWithLimit
