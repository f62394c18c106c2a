package fbc

import (
	"fmt"
	"path"
	"strings"
)

// ignoreRules are the patterns of one .indexignore file. They apply below its folder.
type ignoreRules struct {
	// folder is the path of the folder, "." for the root.
	folder   string
	patterns []ignorePattern
}

// ignorePattern is one line of an ignore file.
type ignorePattern struct {
	// negated is set if the line starts with "!": matching files are included again.
	negated bool
	// foldersOnly is set if the line ends with "/".
	foldersOnly bool
	// floating is set if the line has no inner or leading "/": it matches a name at any depth.
	// Other patterns are relative to the folder of the file.
	floating bool
	// segments are the parts of the pattern between slashes.
	segments []string
}

// isFileIgnored reports whether a file is excluded from the catalog. The last matching pattern
// decides, and the patterns of a deeper folder follow those of the folders above it.
//
// A pattern matches a file if it matches its path or the path of a folder above it. Unlike in
// git, a file can be included again below an excluded folder: every folder is walked, as catalogs
// with "**/*" and "!*.yaml" expect.
func isFileIgnored(stack []ignoreRules, file string) bool {
	for i := len(stack) - 1; i >= 0; i-- {
		relative := file
		if stack[i].folder != "." {
			relative = strings.TrimPrefix(file, stack[i].folder+"/")
		}
		parts := strings.Split(relative, "/")
		for j := len(stack[i].patterns) - 1; j >= 0; j-- {
			if p := stack[i].patterns[j]; p.matchesPath(parts) {
				return !p.negated
			}
		}
	}

	return false
}

func (p ignorePattern) matchesPath(parts []string) bool {
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

	return p.matchesPathPrefix(parts)
}

// matchesPathPrefix reports whether the segments match the path or a folder above it. A "**"
// matches any number of folders, so it follows all alternatives at once: reached[i] is set if the
// first i segments match the parts seen so far. The cost is the product of both lengths.
func (p ignorePattern) matchesPathPrefix(parts []string) bool {
	reached := make([]bool, len(p.segments)+1)
	reached[0] = true
	p.passDoubleStars(reached)
	for n, part := range parts {
		next := make([]bool, len(reached))
		for i, segment := range p.segments {
			switch {
			case !reached[i]:
			case segment == "**":
				// "**" matches this part. It may match further parts or end here.
				next[i] = true
				next[i+1] = true
			case matchSegment(segment, part):
				next[i+1] = true
			}
		}

		p.passDoubleStars(next)
		isFolder := n < len(parts)-1
		if next[len(p.segments)] && (isFolder || !p.foldersOnly) {
			return true
		}

		reached = next
	}

	return false
}

// passDoubleStars marks the segment after each reached "**" as reached, as "**" also matches no
// folder. A trailing "**" is an exception: "a/**" matches the content of a, not a itself.
func (p ignorePattern) passDoubleStars(reached []bool) {
	for i := range len(p.segments) - 1 {
		if reached[i] && p.segments[i] == "**" {
			reached[i+1] = true
		}
	}
}

// matchSegment reports whether a glob matches one path element. A malformed glob matches nothing,
// as in git.
func matchSegment(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return err == nil && ok
}

// parseIgnoreFile parses the content of an .indexignore file.
func parseIgnoreFile(domain string, text []byte) (*ignoreRules, error) {
	if len(text) > maxIgnoreFileBytes {
		return nil, fmt.Errorf("is larger than %d bytes", maxIgnoreFileBytes)
	}

	result := &ignoreRules{folder: domain}
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		p, ok := parseIgnorePattern(line)
		if !ok {
			continue
		}
		if len(result.patterns) == maxIgnorePatterns {
			return nil, fmt.Errorf("has more than %d patterns", maxIgnorePatterns)
		}
		result.patterns = append(result.patterns, p)
	}

	return result, nil
}

// parseIgnorePattern parses one line. It returns false if the line has no pattern.
func parseIgnorePattern(line string) (ignorePattern, bool) {
	line = trimIgnoreLine(line)
	if line == "" || line[0] == '#' {
		return ignorePattern{}, false
	}

	p := ignorePattern{}
	if line[0] == '!' {
		p.negated = true
		line = line[1:]
	}
	if trimmed := strings.TrimRight(line, "/"); trimmed != line {
		p.foldersOnly = true
		line = trimmed
	}

	p.floating = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return ignorePattern{}, false
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

// trimIgnoreLine trims blanks from both ends, except for a trailing blank that is escaped by a
// backslash.
func trimIgnoreLine(line string) string {
	line = strings.TrimRight(strings.TrimLeft(line, " \t"), "\r\n")
	trimmed := strings.TrimRight(line, " \t")
	quotes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if quotes%2 == 1 && len(trimmed) < len(line) {
		return line[:len(trimmed)+1]
	}
	return trimmed
}
