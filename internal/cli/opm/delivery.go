package opm

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// deliveryFlags say where an image goes that is built without a container engine.
type deliveryFlags struct {
	push            bool
	archive, layout string
}

func (d *deliveryFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&d.push, "push", false, "build the image without a container engine, and push it to --tag")
	flags.StringVar(&d.archive, "archive", "", "build the image without a container engine, and write it to this file as an OCI archive")
	flags.StringVar(&d.layout, "oci-layout", "", "build the image without a container engine, and write it to this folder as an OCI layout")
}

// read returns what the flags say. The tag is that of the image.
func (d *deliveryFlags) read(tag string) (catalogs.Delivery, error) {
	delivery := catalogs.Delivery{Archive: d.archive, Layout: d.layout, Name: tag}
	if d.push {
		if tag == "" {
			return delivery, &terminal.UsageError{Err: errors.New("--push needs --tag: it says where the image goes")}
		}
		delivery.Push = tag
	}

	return delivery, nil
}

// printReference writes by what an image can be pulled, if it was pushed.
func printReference(cmd *cobra.Command, reference string, err error) error {
	if reference != "" {
		fmt.Fprintln(cmd.OutOrStdout(), reference)
	}
	return err
}

// thisProgram is the file of the program that runs, which images get that have to serve.
// If it is not known, what cannot do without it says so.
func thisProgram() string {
	name, err := os.Executable()
	if err != nil {
		return "opm"
	}
	return name
}
