package catalogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/template"
)

// RenderComposite renders what a composite template contributes to catalogs.
type RenderComposite struct {
	Registry Registry
	Progress report.Progress

	// Catalogs is the file or URL that lists the catalogs. Contributions is the file that
	// describes the contributions to them.
	Catalogs, Contributions string
	// AllowCommands lets the template run commands.
	AllowCommands bool
	// Validate validates the folders that were written.
	Validate bool
	// Format is the format of the written files.
	Format fbc.Format
}

// Run builds all components and writes their files.
func (a *RenderComposite) Run(ctx context.Context) error {
	catalogs, err := readFileOrURL(ctx, a.Catalogs)
	if err != nil {
		return fmt.Errorf("reading the catalogs: %w", err)
	}

	contributions, err := readSizeLimited(os.Open(a.Contributions))
	if err != nil {
		return fmt.Errorf("reading the contributions: %w", err)
	}

	composite, err := template.ReadComposite(catalogs, contributions)
	if err != nil {
		return fmt.Errorf("rendering template: %w", err)
	}

	outputs, err := composite.Build(ctx, template.Builders{
		Renderer:      &bundleRenderer{registry: a.Registry, progress: &sharedProgress{target: a.Progress}},
		Open:          func(name string) (io.ReadCloser, error) { return os.Open(name) },
		AllowCommands: a.AllowCommands,
		Run:           runTemplateCommand,
	})
	if err != nil {
		return fmt.Errorf("rendering template: %w", err)
	}

	for _, output := range outputs {
		if err := a.writeCatalogOutput(ctx, output); err != nil {
			return fmt.Errorf("catalog %q: %w", output.Catalog, err)
		}
		report.OrQuiet(a.Progress).Done("written " + output.File)
	}

	return nil
}

// writeCatalogOutput writes the output for one catalog and validates it if Validate is set.
func (a *RenderComposite) writeCatalogOutput(ctx context.Context, output template.Output) error {
	var text bytes.Buffer
	if err := WriteMetas(ctx, output.Blobs, a.Format, a.Progress, &text); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(output.File), 0o777); err != nil { //nolint:gosec // the user's umask decides
		return err
	}
	if err := os.WriteFile(output.File, text.Bytes(), 0o666); err != nil { //nolint:gosec // as above
		return err
	}
	if !a.Validate {
		return nil
	}

	return (&Validate{Dir: output.Dir}).Run(ctx)
}

// maxCompositeBytes limits the size of each file of a composite template. A template with a
// thousand components has less than 1 MiB.
const maxCompositeBytes = 16 << 20

// readSizeLimited reads and closes r, up to maxCompositeBytes. It takes the result of an open
// call: an error is returned as it is.
func readSizeLimited(r io.ReadCloser, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(r, maxCompositeBytes+1))
	if err == nil && len(data) > maxCompositeBytes {
		err = fmt.Errorf("it has more than %d bytes", maxCompositeBytes)
	}

	return data, err
}

// readFileOrURL returns the content of a file, or of an HTTP(S) URL.
func readFileOrURL(ctx context.Context, name string) ([]byte, error) {
	if !strings.HasPrefix(name, "https://") && !strings.HasPrefix(name, "http://") {
		return readSizeLimited(os.Open(name))
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
	if err != nil {
		return nil, err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close() // it is not read
		return nil, fmt.Errorf("%s answered %s", request.URL.Redacted(), response.Status)
	}

	return readSizeLimited(response.Body, nil)
}

// runTemplateCommand runs a command and returns its standard output. An error includes its standard
// error.
func runTemplateCommand(ctx context.Context, command string, args []string) (io.ReadCloser, error) {
	out, err := exec.CommandContext(ctx, command, args...).Output() //nolint:gosec // the user has allowed it
	var failed *exec.ExitError
	if errors.As(err, &failed) && len(failed.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	return io.NopCloser(bytes.NewReader(out)), err
}
