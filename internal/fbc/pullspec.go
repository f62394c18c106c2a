package fbc

// CheckPullSpec reports whether a text is the reference of an image by the rules of the
// format: a name that may be short, with a tag, a digest, or both.
func CheckPullSpec(text string) error { return checkPullSpec(text) }
