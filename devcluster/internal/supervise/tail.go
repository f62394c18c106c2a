package supervise

import (
	"bytes"
	"io"
	"os"
)

// maxTailBytes is how much of the end of a log is read at most. It holds 15 lines of a component's longest messages.
const maxTailBytes = 64 << 10

// Tail returns the last lines of a file without the trailing line break. It returns "" for a file that is empty or
// cannot be read. A line longer than 64 KiB loses its beginning.
func Tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-maxTailBytes), io.SeekStart)
	}

	content, err := io.ReadAll(io.LimitReader(file, maxTailBytes))
	if err != nil {
		return ""
	}

	return string(lastLines(content, lines))
}

func lastLines(content []byte, lines int) []byte {
	content = bytes.TrimRight(content, "\n")
	start := len(content)
	for range lines {
		start = bytes.LastIndexByte(content[:start], '\n')
		if start < 0 {
			return content
		}
	}

	return content[start+1:]
}
