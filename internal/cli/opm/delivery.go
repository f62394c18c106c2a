package opm

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// deliveryFlags are the destinations of an image that is built without a container engine.
type deliveryFlags struct {
	push            bool
	archive, layout string
}

func (d *deliveryFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&d.push, "push", false, "build the image without a container engine, and push it to --tag")
	flags.StringVar(&d.archive, "archive", "", "build the image without a container engine, and write it to this file as an OCI archive")
	flags.StringVar(&d.layout, "oci-layout", "", "build the image without a container engine, and write it to this directory as an OCI layout")
}

// toDelivery returns the destinations that the flags select. The tag is the reference of the image.
func (d *deliveryFlags) toDelivery(tag string) (catalogs.Delivery, error) {
	delivery := catalogs.Delivery{Archive: d.archive, Layout: d.layout, Name: tag}
	if d.push {
		if tag == "" {
			return delivery, &terminal.UsageError{Err: errors.New("--push requires --tag, the reference to push to")}
		}
		delivery.Push = tag
	}

	return delivery, nil
}

// printImageReference prints the reference of a pushed image, if there is one, and returns err.
func printImageReference(cmd *cobra.Command, reference string, err error) error {
	if reference != "" {
		fmt.Fprintln(cmd.OutOrStdout(), reference)
	}
	return err
}

// currentExecutable returns the path of the running program, which is added to images that serve a
// catalog. If the path is unknown, it returns "opm", and building such an image fails.
func currentExecutable() string {
	name, err := os.Executable()
	if err != nil {
		return "opm"
	}
	return name
}
