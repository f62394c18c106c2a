package jsontext

// Indent appends a compact value with line breaks and blanks, as encoding/json indents. Each
// member and element is on its own line. The line starts with the prefix and one indent for each
// enclosing object and list. The first line has no prefix.
//
// The value must be the output of Compact. The result for any other text is not valid JSON
// either.
func Indent(dst, value []byte, prefix, indent string) []byte {
	var space [128]byte
	line := append(append(space[:0], '\n'), prefix...)
	run, depth := 0, 0
	for i := 0; i < len(value); {
		switch value[i] {
		case '"':
			i = findStringEnd(value, i+1)
			continue
		case '{', '[':
			if i+1 < len(value) && (value[i+1] == '}' || value[i+1] == ']') {
				i += 2
				continue
			}
			depth++
			line = append(line, indent...)
			dst = append(append(dst, value[run:i+1]...), line...)
			run = i + 1

		case '}', ']':
			if depth > 0 {
				depth--
				line = line[:len(line)-len(indent)]
			}
			dst = append(append(dst, value[run:i]...), line...)
			run = i

		case ',':
			dst = append(append(dst, value[run:i+1]...), line...)
			run = i + 1
		case ':':
			dst = append(append(dst, value[run:i+1]...), ' ')
			run = i + 1
		}
		i++
	}

	return append(dst, value[run:]...)
}
