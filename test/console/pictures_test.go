package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// A picture with many colors becomes smaller and keeps its frequent colors. A second call does not change it.
func TestShrinkPictures(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 200, 100))
	for x := range 200 {
		for y := range 100 {
			picture.SetRGBA(x, y, color.RGBA{R: 255, G: 255, B: 255, A: 255})
			if y > 90 {
				picture.SetRGBA(x, y, color.RGBA{R: uint8(x), G: uint8(y), B: uint8(x * y), A: 255})
			}
		}
	}
	var data bytes.Buffer
	if err := png.Encode(&data, picture); err != nil {
		t.Fatal(err)
	}

	folder := t.TempDir()
	name := filepath.Join(folder, "page.png")
	if err := os.WriteFile(name, data.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for range 2 {
		if err := shrinkPictures(folder); err != nil {
			t.Fatal(err)
		}
		shrunk, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(shrunk))

		got, err := png.Decode(bytes.NewReader(shrunk))
		if err != nil {
			t.Fatal(err)
		}
		if c := color.RGBAModel.Convert(got.At(10, 10)); c != (color.RGBA{R: 255, G: 255, B: 255, A: 255}) || got.Bounds() != picture.Bounds() {
			t.Errorf("got the color %v in a picture of %v, want the white of one of %v", c, got.Bounds(), picture.Bounds())
		}
	}
	if sizes[0] >= data.Len() || sizes[1] != sizes[0] {
		t.Errorf("got %v bytes of %d, want fewer, and the same the second time", sizes, data.Len())
	}
}
