package realnode

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

func TestPauseBinaryIsAnExecutable(t *testing.T) {
	for architecture, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(architecture, func(t *testing.T) {
			binary, err := buildPauseBinary(architecture)
			if err != nil {
				t.Fatal(err)
			}

			file, err := elf.NewFile(bytes.NewReader(binary))
			if err != nil {
				t.Fatal(err)
			}
			if file.Machine != machine || file.Type != elf.ET_EXEC || len(file.Progs) != 1 {
				t.Fatalf("got header %+v, want that of a program for the architecture", file.FileHeader)
			}

			segment := file.Progs[0]
			if segment.Filesz != uint64(len(binary)) || segment.Flags != elf.PF_R|elf.PF_X {
				t.Errorf("got segment %+v of a file of %d bytes, want one of the whole file", segment.ProgHeader, len(binary))
			}

			code := binary[file.Entry-segment.Vaddr:]
			if !bytes.Equal(code, pauseCode[architecture]) {
				t.Errorf("got the entry %#x, want the start of the code", file.Entry)
			}
			if data := bytes.Index(code, ignoreSignal); data%8 != 0 || data+len(ignoreSignal) != len(code) {
				t.Errorf("got the struct for the kernel at %d, want it at the end of %d bytes", data, len(code))
			}
		})
	}

	if _, err := buildPauseBinary("riscv64"); err == nil || !strings.Contains(err.Error(), "riscv64") {
		t.Errorf("got %v for an unsupported architecture, want an error with its name", err)
	}
}

// TestPauseRuns sends the program a signal that it ignores and then one that ends it. If it crashed or ended before, it would
// end with another signal, or with none.
func TestPauseRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the pause program is one of Linux")
	}

	binary, err := buildPauseBinary(runtime.GOARCH)
	if err != nil {
		t.Skip(err)
	}

	path := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(path, binary, 0o700); err != nil {
		t.Fatal(err)
	}

	pause := exec.Command(path)
	if err := pause.Start(); err != nil {
		t.Fatal(err)
	}

	for _, signal := range []syscall.Signal{syscall.SIGCHLD, syscall.SIGUSR1} {
		if err := pause.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}

	if err := pause.Wait(); err == nil || err.Error() != "signal: user defined signal 1" {
		t.Errorf("got %v, want that SIGUSR1 ended it", err)
	}
}

func TestPauseImageHoldsTheProgram(t *testing.T) {
	image, err := newPauseImage("amd64")
	if err != nil {
		t.Fatal(err)
	}

	files := tar.NewReader(mutate.Extract(image))
	header, err := files.Next()
	if err != nil || header.Name != "pause" || header.Mode != 0o755 {
		t.Fatalf("got first file %+v, error %v; want the program", header, err)
	}

	content, err := io.ReadAll(files)
	if want, _ := buildPauseBinary("amd64"); err != nil || !bytes.Equal(content, want) {
		t.Errorf("got %d bytes, error %v; want the program", len(content), err)
	}

	config, err := image.ConfigFile()
	if err != nil || config.Architecture != "amd64" || config.OS != "linux" || config.Config.Entrypoint[0] != "/pause" {
		t.Errorf("got configuration %+v, error %v; want that of the program", config, err)
	}
}
