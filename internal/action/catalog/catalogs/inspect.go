package catalogs

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle/validate"
)

// maxParallelInspections is the number of images that are inspected at a time.
const maxParallelInspections = 8

// InspectImages reads the platforms of images. It reads only their manifests and, if these
// do not name the platform, their configurations.
type InspectImages struct {
	Registry Registry
	Progress report.Progress
}

// Run inspects the images. Errors are part of the result of each image.
func (a *InspectImages) Run(ctx context.Context, images []string) map[string]validate.Inspection {
	var (
		mu    sync.Mutex
		group errgroup.Group
		found = map[string]validate.Inspection{}
		shown = &sharedProgress{target: a.Progress}
	)

	group.SetLimit(maxParallelInspections)
	for _, ref := range images {
		group.Go(func() error {
			lane, done := shown.addProgressLane()
			defer done()
			defer showOperation(lane, ref, "inspecting")()
			result := a.inspectImage(ctx, ref)
			mu.Lock()
			defer mu.Unlock()
			found[ref] = result

			return nil
		})
	}

	_ = group.Wait() // Errors are part of the results.
	return found
}

// inspectImage returns the platforms of an image, or the error.
func (a *InspectImages) inspectImage(ctx context.Context, ref string) validate.Inspection {
	platforms, err := a.Registry.Client(ref).Platforms(ctx, ref)
	result := validate.Inspection{Err: err}
	for _, p := range platforms {
		result.Platforms = append(result.Platforms, validate.Platform{OS: p.OS, Architecture: p.Architecture})
	}
	return result
}
