package jsontext

// End returns the length of the object that a text begins with, judged by its braces,
// brackets and strings alone, and 0 when the text ends before it does. It is for cutting
// up a text that is checked later: of an object that Compact reads it gives the length.
func End(text []byte) int {
	depth := 0
	for i := 0; i < len(text); {
		if i+8 <= len(text) {
			marks := structure(word(text, i))
			if marks == 0 {
				i += 8
				continue
			}
			i += first(marks)
		}
		switch text[i] {
		case '"':
			i = stringEnd(text, i+1)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1
			}
		}
		i++
	}

	return 0
}

// structure marks quotes, braces and brackets, and some letters.
func structure(w uint64) uint64 {
	quotes := w ^ '"'*ones
	// Of the bytes of JSON outside of strings, only braces and brackets have all the bits
	// of 0x59.
	brackets := (w | 0x26*ones) ^ 0x7f*ones
	return ((quotes-ones)&^quotes | (brackets-ones)&^brackets) & high
}
