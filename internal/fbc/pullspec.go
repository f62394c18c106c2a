package fbc

// CheckPullSpec returns an error if text is not an image reference. The name may be short and may
// have a tag, a digest, or both.
func CheckPullSpec(text string) error { return checkImagePullSpec(text) }
