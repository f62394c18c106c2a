package jsontext

import (
	"encoding/binary"
	"math/bits"
)

// The text is looked at eight bytes at a time: a word with the high bit set in each
// byte that is looked for, and none set below the first of those.
const (
	ones   = 0x0101010101010101
	high   = 0x80 * ones
	blanks = ' ' * ones
)

// word returns the eight bytes at an index, the first of them lowest.
func word(text []byte, i int) uint64 { return binary.LittleEndian.Uint64(text[i : i+8]) }

// specials marks the bytes that cannot be copied as they are from a JSON string: quotes,
// backslashes, control characters and all that is not ASCII. A subtraction borrows from
// the next byte only below a mark.
func specials(w uint64) uint64 {
	quotes := (w ^ '"'*ones) - ones
	slashes := (w ^ '\\'*ones) - ones
	controls := w - blanks
	return (quotes | slashes | controls | w) & high
}

// stops marks quotes and backslashes alone.
func stops(w uint64) uint64 {
	quotes := w ^ '"'*ones
	slashes := w ^ '\\'*ones
	return ((quotes-ones)&^quotes | (slashes-ones)&^slashes) & high
}

// first returns the place of the first marked byte, from 0 to 7.
func first(marks uint64) int { return bits.TrailingZeros64(marks) >> 3 }

// blankEnd returns the index of the first byte at or after i that is not blank.
func blankEnd(text []byte, i int) int {
	for i < len(text) {
		if i+8 <= len(text) {
			// Most blanks are those of an indentation.
			other := word(text, i) ^ blanks
			if other == 0 {
				i += 8
				continue
			}
			i += first(other)
		}
		switch text[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}

	return i
}

// stringEnd returns the index after the quote that closes a string, looked for from an
// index within it that is not in the middle of an escape. It is the length of the text
// when there is none.
func stringEnd(text []byte, i int) int {
	for i < len(text) {
		if i+8 <= len(text) {
			marks := stops(word(text, i))
			if marks == 0 {
				i += 8
				continue
			}
			i += first(marks)
		}
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i += 2
		default:
			i++
		}
	}

	return len(text)
}
