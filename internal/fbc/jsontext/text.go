package jsontext

import (
	"encoding/binary"
	"math/bits"
)

// Text is searched eight bytes at a time. The result is a word with the high bit set in
// each matching byte. Bits above the first match may be wrong, bits below are not.
const (
	lowBits    = 0x0101010101010101
	highBits   = 0x80 * lowBits
	blankBytes = ' ' * lowBits
)

// loadEightBytes returns the eight bytes at an index, the first byte lowest.
func loadEightBytes(text []byte, i int) uint64 { return binary.LittleEndian.Uint64(text[i : i+8]) }

// markSpecials marks the bytes of a JSON string that cannot be copied unchanged: quotes,
// backslashes, control characters and non-ASCII bytes. A subtraction borrows from the next byte
// only below a mark.
func markSpecials(w uint64) uint64 {
	quotes := (w ^ '"'*lowBits) - lowBits
	slashes := (w ^ '\\'*lowBits) - lowBits
	controls := w - blankBytes
	return (quotes | slashes | controls | w) & highBits
}

// markStringEnds marks quotes and backslashes.
func markStringEnds(w uint64) uint64 {
	quotes := w ^ '"'*lowBits
	slashes := w ^ '\\'*lowBits
	return ((quotes-lowBits)&^quotes | (slashes-lowBits)&^slashes) & highBits
}

// firstMarkedByte returns the index of the first marked byte, from 0 to 7.
func firstMarkedByte(marks uint64) int { return bits.TrailingZeros64(marks) >> 3 }

// findBlankEnd returns the index of the first byte at or after i that is not blank.
func findBlankEnd(text []byte, i int) int {
	for i < len(text) {
		if i+8 <= len(text) {
			// Most blanks are indentation.
			other := loadEightBytes(text, i) ^ blankBytes
			if other == 0 {
				i += 8
				continue
			}
			i += firstMarkedByte(other)
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

// findStringEnd returns the index after the quote that closes a string, or the length of the text
// if there is none. It searches from an index within the string that is not in the middle of an
// escape.
func findStringEnd(text []byte, i int) int {
	for i < len(text) {
		if i+8 <= len(text) {
			marks := markStringEnds(loadEightBytes(text, i))
			if marks == 0 {
				i += 8
				continue
			}
			i += firstMarkedByte(marks)
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
