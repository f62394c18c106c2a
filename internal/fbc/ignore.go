package fbc

import (
	"fmt"
	"path"
	"strings"
)

// ignores are the patterns of one .indexignore file, which apply below its folder.
type ignores struct {
	// domain is the folder, "." for the root.
	domain   string
	patterns []pattern
}

// pattern is one line of an ignore file.
type pattern struct {
	// include says that the line starts with "!": what it matches is part of the
	// catalog again.
	include bool
	// foldersOnly says that the line ends with "/".
	foldersOnly bool
	// floating says that the line has no inner or leading "/": it matches a name at any
	// depth. Other patterns start at the domain.
	floating bool
	// segments are the parts between slashes.
	segments []string
}

// ignored reports whether a file is left out: the last pattern that matches it decides,
// and the patterns of a deeper folder come after those of the folders above.
//
// A pattern matches a file when it matches its path or the path of a folder that it
// is in. Unlike in git, a file can be included again below a folder that is left
// out: every folder is walked, as catalogs with "**/*" and "!*.yaml" expect.
func ignored(stack []ignores, file string) bool {
	for i := len(stack) - 1; i >= 0; i-- {
		relative := file
		if stack[i].domain != "." {
			relative = strings.TrimPrefix(file, stack[i].domain+"/")
		}
		parts := strings.Split(relative, "/")
		for j := len(stack[i].patterns) - 1; j >= 0; j-- {
			if p := stack[i].patterns[j]; p.matches(parts) {
				return !p.include
			}
		}
	}

	return false
}

func (p pattern) matches(parts []string) bool {
	if p.floating {
		last := len(parts)
		if p.foldersOnly {
			last--
		}
		for _, part := range parts[:last] {
			if matchSegment(p.segments[0], part) {
				return true
			}
		}
		return false
	}

	return p.matchesPrefix(parts)
}

// matchesPrefix reports whether the segments match the path or a folder that it is in.
// It follows all ways at once, as a "**" may stand for any number of folders:
// reached[i] says that the first i segments match the parts seen so far. The work is
// the product of both lengths.
func (p pattern) matchesPrefix(parts []string) bool {
	reached := make([]bool, len(p.segments)+1)
	reached[0] = true
	p.skipStars(reached)
	for n, part := range parts {
		next := make([]bool, len(reached))
		for i, segment := range p.segments {
			switch {
			case !reached[i]:
			case segment == "**":
				// It takes this part, and may take more or be over.
				next[i] = true
				next[i+1] = true
			case matchSegment(segment, part):
				next[i+1] = true
			}
		}

		p.skipStars(next)
		isFolder := n < len(parts)-1
		if next[len(p.segments)] && (isFolder || !p.foldersOnly) {
			return true
		}

		reached = next
	}

	return false
}

// skipStars lets each "**" that is reached stand for no folder at all, but for a last
// one: "a/**" matches what is in a, not a itself.
func (p pattern) skipStars(reached []bool) {
	for i := range len(p.segments) - 1 {
		if reached[i] && p.segments[i] == "**" {
			reached[i+1] = true
		}
	}
}

// matchSegment matches one name. A malformed pattern matches nothing, as in git.
func matchSegment(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return err == nil && ok
}

// parseIgnores reads the lines of an ignore file.
func parseIgnores(domain string, text []byte) (*ignores, error) {
	if len(text) > ignoreBytes {
		return nil, fmt.Errorf("is larger than %d bytes", ignoreBytes)
	}

	result := &ignores{domain: domain}
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		p, ok := parsePattern(line)
		if !ok {
			continue
		}
		if len(result.patterns) == ignorePatterns {
			return nil, fmt.Errorf("has more than %d patterns", ignorePatterns)
		}
		result.patterns = append(result.patterns, p)
	}

	return result, nil
}

// parsePattern reads one line; it is not ok when the line has no pattern.
func parsePattern(line string) (pattern, bool) {
	line = trimLine(line)
	if line == "" || line[0] == '#' {
		return pattern{}, false
	}

	p := pattern{}
	if line[0] == '!' {
		p.include = true
		line = line[1:]
	}
	if trimmed := strings.TrimRight(line, "/"); trimmed != line {
		p.foldersOnly = true
		line = trimmed
	}

	p.floating = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return pattern{}, false
	}

	for segment := range strings.SplitSeq(line, "/") {
		// gitignore negates a class with "!", path.Match with "^".
		segment = strings.ReplaceAll(segment, "[!", "[^")
		p.segments = append(p.segments, segment)
	}

	if p.floating && p.segments[0] == "**" {
		p.segments[0] = "*"
	}

	return p, true
}

// trimLine takes blanks off both ends, but for a blank at the end that a backslash
// quotes.
func trimLine(line string) string {
	line = strings.TrimRight(strings.TrimLeft(line, " \t"), "\r\n")
	trimmed := strings.TrimRight(line, " \t")
	quotes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if quotes%2 == 1 && len(trimmed) < len(line) {
		return line[:len(trimmed)+1]
	}
	return trimmed
}
