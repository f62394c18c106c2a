package jsontext

// End returns the length of the object at the start of a text, or 0 if the text ends before the
// object does. It only examines braces, brackets and strings, so it is suitable for splitting
// text that is validated later. For an object that Compact accepts the length is exact.
func End(text []byte) int {
	depth := 0
	for i := 0; i < len(text); {
		if i+8 <= len(text) {
			marks := markStructure(loadEightBytes(text, i))
			if marks == 0 {
				i += 8
				continue
			}
			i += firstMarkedByte(marks)
		}
		switch text[i] {
		case '"':
			i = findStringEnd(text, i+1)
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

// markStructure marks quotes, braces and brackets, and some letters.
func markStructure(w uint64) uint64 {
	quotes := w ^ '"'*lowBits
	// Outside of strings, braces and brackets are the only bytes of JSON with all bits of
	// 0x59 set.
	brackets := (w | 0x26*lowBits) ^ 0x7f*lowBits
	return ((quotes-lowBits)&^quotes | (brackets-lowBits)&^brackets) & highBits
}
