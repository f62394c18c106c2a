// Command sbom writes a software bill of materials (SBOM) for each Go module, as CycloneDX 1.6
// JSON. An SBOM contains the modules of the module's programs and tools, the standard library, and
// the dependencies between modules. It does not depend on the time or the machine.
//
//	sbom --version v1.0.0 --to bin/sbom . devcluster tools
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "unknown", "version of the modules")
	to := flag.String("to", ".", "folder for the files")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: sbom [--version VERSION] [--to FOLDER] MODULE-FOLDER...")
		os.Exit(2)
	}

	for _, dir := range flag.Args() {
		file, err := writeBOM(context.Background(), dir, *version, *to)
		if err != nil {
			fmt.Fprintf(os.Stderr, "sbom: module in %s: %v\n", dir, err)
			os.Exit(1)
		}
		fmt.Println(file)
	}
}

// writeBOM writes the SBOM of the module in dir to the folder to, and returns the path of the
// file.
func writeBOM(ctx context.Context, dir, version, to string) (string, error) {
	toolchain, err := goVersion(ctx, dir)
	if err != nil {
		return "", err
	}

	packages, err := listPackages(ctx, dir)
	if err != nil {
		return "", err
	}

	bom, err := newBOM(packages, version, toolchain)
	if err != nil {
		return "", err
	}

	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}

	name := bom.Metadata.Component.Name
	file := filepath.Join(to, name[strings.LastIndex(name, "/")+1:]+".cdx.json")
	out, err := os.Create(file)
	if err != nil {
		return "", err
	}

	err = encodeBOM(out, bom)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}

	return file, err
}

func encodeBOM(w io.Writer, bom *cdx.BOM) error {
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}
