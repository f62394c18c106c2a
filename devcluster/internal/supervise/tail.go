package supervise

import (
	"bytes"
	"io"
	"os"
)

// tailBytes bounds what is read of a log for its end: 15 lines of the longest messages of a component.
const tailBytes = 64 << 10

// Tail returns the last lines of a file without the line break at their end, "" for a file that is empty or unreadable.
// A line longer than 64 KiB is cut at its beginning.
func Tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-tailBytes), io.SeekStart)
	}

	content, err := io.ReadAll(io.LimitReader(file, tailBytes))
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
