package template

// ReadAtMost lets tests use a lower limit.
var ReadAtMost = readInputWithLimit
