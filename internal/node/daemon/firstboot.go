package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// maxAnnotations is how large the file may be that tells what the first boot has written.
const maxAnnotations = 64 << 10

// firstBoot returns what the first boot of the machine has written, nil when nobody knows. It has no
// name: whether it is there as it should be was never looked at, and what Ignition does not do, the
// image of the operating system and what belongs to it, is left out. The node is brought to its
// configuration as to any other, which changes what differs, and that is mostly nothing.
func (d *Daemon) firstBoot(ctx context.Context) (*applied, error) {
	data, err := d.disk.content(config.AnnotationsFile, maxAnnotations)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the first boot has written: %w", err)
	}

	name, err := config.FirstBootName(data)
	if err != nil || name == "" {
		return nil, err
	}

	written := &mcfgv1.MachineConfig{}
	err = d.Reader.Get(ctx, client.ObjectKey{Name: name}, written)
	if apierrors.IsNotFound(err) {
		return nil, nil // It is not needed any more: the node is changed as one of which nothing is known.
	}
	if err == nil {
		err = config.CheckName(written)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the first boot has written, MachineConfig %q: %w", name, err)
	}

	a := appliedOf(written)
	a.Name, a.Spec.OSImageURL, a.Spec.BaseOSExtensionsContainerImage = "", "", ""
	a.Spec.KernelArguments, a.Spec.Extensions = nil, nil

	return a, nil
}

// own records that nothing was at the paths of a configuration before it: the first boot has
// written what is there, and when a path leaves the configuration, that goes.
func (d *disk) own(a *applied) error {
	ignition, err := a.ignition()
	if err != nil {
		return err
	}

	items, err := d.items(ignition)
	if err != nil {
		return err
	}

	for _, it := range items {
		if err := d.record(original{Path: it.path, Kind: originalNone}); err != nil {
			return err
		}
	}

	return nil
}
