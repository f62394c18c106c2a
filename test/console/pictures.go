package main

import (
	"bytes"
	"cmp"
	"errors"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// maxColors is the number of colors of a picture, so that one byte is enough for each pixel.
const maxColors = 256

// shrinkPictures writes the pictures of a folder with a palette of their most frequent colors, which halves their size. Pictures that
// have a palette, or that would not become smaller, are not changed.
func shrinkPictures(folder string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*.png"))
	if err != nil {
		return err
	}

	var failures []error
	for _, name := range names {
		failures = append(failures, shrinkPicture(name))
	}
	return errors.Join(failures...)
}

func shrinkPicture(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if _, ok := picture.(*image.Paletted); ok {
		return nil
	}

	var shrunk bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&shrunk, toPaletted(picture)); err != nil {
		return err
	}
	if shrunk.Len() >= len(data) {
		return nil
	}
	return os.WriteFile(name, shrunk.Bytes(), 0o644)
}

// toPaletted returns a picture with its most frequent colors. Each other color is replaced by the nearest of them.
func toPaletted(picture image.Image) *image.Paletted {
	bounds := picture.Bounds()
	counts := map[color.RGBA]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[rgbaAt(picture, x, y)]++
		}
	}

	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B), cmp.Compare(a.A, b.A))
	})
	palette := color.Palette{}
	for _, c := range frequent[:min(len(frequent), maxColors)] {
		palette = append(palette, c)
	}

	indexes := map[color.RGBA]uint8{}
	for c := range counts {
		indexes[c] = uint8(palette.Index(c))
	}

	paletted := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			paletted.SetColorIndex(x, y, indexes[rgbaAt(picture, x, y)])
		}
	}
	return paletted
}

func rgbaAt(picture image.Image, x, y int) color.RGBA {
	return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)
}
