package catalogs

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle/validate"
)

// maxInspected is how many images are asked about at a time.
const maxInspected = 8

// InspectImages finds out what images are there for. Only their manifests and, where those
// do not say it, their configurations are read.
type InspectImages struct {
	Registry Registry
	Progress report.Progress
}

// Run asks the registries. What cannot be found out is told of each image.
func (a *InspectImages) Run(ctx context.Context, images []string) map[string]validate.Inspection {
	var (
		mu    sync.Mutex
		group errgroup.Group
		found = map[string]validate.Inspection{}
		shown = &lanes{to: a.Progress}
	)

	group.SetLimit(maxInspected)
	for _, ref := range images {
		group.Go(func() error {
			lane, done := shown.add()
			defer done()
			defer begin(lane, ref, "inspecting")()
			result := a.inspect(ctx, ref)
			mu.Lock()
			defer mu.Unlock()
			found[ref] = result

			return nil
		})
	}

	_ = group.Wait() // Errors stand beside their images.
	return found
}

func (a *InspectImages) inspect(ctx context.Context, ref string) validate.Inspection {
	platforms, err := a.Registry.Client(ref).Platforms(ctx, ref)
	result := validate.Inspection{Err: err}
	for _, p := range platforms {
		result.Platforms = append(result.Platforms, validate.Platform{OS: p.OS, Architecture: p.Architecture})
	}
	return result
}
