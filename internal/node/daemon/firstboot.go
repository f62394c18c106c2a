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

// maxAnnotationsSize limits the size in bytes of the file that names the configuration of the first boot.
const maxAnnotationsSize = 64 << 10

// readFirstBootConfig returns the configuration that Ignition applied at the first boot; nil when it is not known. The
// configuration has no name, because nothing has verified it, and no operating system settings, because Ignition does
// not apply them. The node is updated from it as from any other configuration.
func (g *gatherer) readFirstBootConfig(ctx context.Context) (*applied, error) {
	data, err := g.disk.readFile(config.AnnotationsFile, maxAnnotationsSize)
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
	err = g.reader.Get(ctx, client.ObjectKey{Name: name}, written)
	if apierrors.IsNotFound(err) {
		return nil, nil // It was deleted: update the node as one without a known configuration.
	}
	if err == nil {
		err = config.CheckName(written)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the first boot has written, MachineConfig %q: %w", name, err)
	}

	a := newApplied(written)
	a.Name, a.Spec.OSImageURL, a.Spec.BaseOSExtensionsContainerImage = "", "", ""
	a.Spec.KernelArguments, a.Spec.Extensions = nil, nil

	return a, nil
}

// recordAsWrittenByFirstBoot records that the first boot created the files of a configuration. They are removed when
// they leave the configuration.
func (o originals) recordAsWrittenByFirstBoot(a *applied) error {
	items, err := a.resolveItems(o.disk)
	if err != nil {
		return err
	}

	for _, it := range items {
		if err := o.writeRecord(original{Path: it.path, Kind: originalNone}); err != nil {
			return err
		}
	}

	return nil
}
