package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unique"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

const (
	// kubeconfigFile is the kubeconfig with which a new machine requests its certificates.
	kubeconfigFile = "/etc/kubernetes/kubeconfig"
	// maxKubeconfigSize limits its size in bytes.
	maxKubeconfigSize = 64 << 10
	// maxConcurrentRenders limits the responses that are rendered in parallel. Each takes about five times the 1.5 MiB that a
	// configuration may have.
	maxConcurrentRenders = 8
	// retryAfter is the value of the header Retry-After, in seconds.
	retryAfter = 5
)

// mediaType is the media type that Ignition accepts. Its parameter is the version that it reads.
const mediaType = "application/vnd.coreos.ignition+json"

// handler serves configurations to machines.
type handler struct {
	reader client.Reader
	log    logr.Logger
	// kubeconfig is the file whose content becomes kubeconfigFile; empty for none.
	kubeconfig string
	// renders is the semaphore of responses that are being rendered.
	renders chan struct{}
}

// newHandler returns the handler of one listener.
func newHandler(reader client.Reader, log logr.Logger, kubeconfig string, renders chan struct{}) http.Handler {
	h := &handler{reader: reader, log: log, kubeconfig: kubeconfig, renders: renders}
	mux := http.NewServeMux()
	// Both patterns match HEAD as well.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /config/{pool}", h.serveConfig)
	return mux
}

// refusal is a response without a configuration.
type refusal struct {
	status int
	text   string
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

// serveConfig serves the configuration of a pool to a new machine.
func (h *handler) serveConfig(w http.ResponseWriter, r *http.Request) {
	response, err := h.renderResponse(r)
	if err != nil {
		var refused *refusal
		if !errors.As(err, &refused) {
			// The client is not authenticated: only the log has the details.
			h.log.Error(err, "Failed to serve a configuration", "pool", r.PathValue("pool"), "machine", r.RemoteAddr)
			refused = &refusal{http.StatusInternalServerError, "the configuration cannot be served: see the log of machine-config-server"}
		}

		if refused.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}

		http.Error(w, refused.text, refused.status)
		return
	}

	// Concurrent responses with the same content share it until the last of them is written. Clients that read slowly
	// would hold a copy each otherwise.
	shared := unique.Make(string(response))
	defer runtime.KeepAlive(shared)

	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(response)))
	w.Header().Set("Vary", "Accept")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodGet {
		h.log.Info("Serving a configuration", "pool", r.PathValue("pool"), "machine", r.RemoteAddr)
	}

	// The machine may have disconnected; it retries.
	_, _ = io.WriteString(w, shared.Value()) //nolint:gosec // G705: the response is declared as JSON
}

// renderResponse renders the configuration for a request. It returns a *refusal for a request that cannot be answered now, or
// not in this form.
func (h *handler) renderResponse(r *http.Request) ([]byte, error) {
	version, err := acceptedVersion(r.Header.Values("Accept"))
	if err != nil {
		return nil, err
	}

	select {
	case h.renders <- struct{}{}:
		defer func() { <-h.renders }()
	case <-r.Context().Done():
		return nil, &refusal{http.StatusServiceUnavailable, "too many concurrent requests"}
	}

	rendered, err := h.readConfig(r.Context(), r.PathValue("pool"))
	if err != nil {
		return nil, err
	}

	additional, err := h.readAdditionalFiles()
	if err != nil {
		return nil, err
	}

	response, err := config.FirstBoot(rendered, version, additional)
	var older *config.VersionError
	if errors.As(err, &older) {
		return nil, &refusal{http.StatusNotAcceptable, older.Error()}
	}

	return response, err
}

// readConfig returns the configuration for machines that join a pool.
func (h *handler) readConfig(ctx context.Context, name string) (*mcfgv1.MachineConfig, error) {
	pool := &mcfgv1.MachineConfigPool{}
	err := h.reader.Get(ctx, client.ObjectKey{Name: name}, pool)
	if apierrors.IsNotFound(err) {
		return nil, &refusal{http.StatusNotFound, "there is no pool with this name"}
	}
	if err != nil {
		return nil, fmt.Errorf("reading pool %q: %w", name, err)
	}

	joining := pools.Joining(pool)
	if joining == "" {
		return nil, &refusal{http.StatusServiceUnavailable, "the pool has no rendered configuration yet"}
	}

	rendered := &mcfgv1.MachineConfig{}
	err = h.reader.Get(ctx, client.ObjectKey{Name: joining}, rendered)
	if apierrors.IsNotFound(err) {
		return nil, &refusal{http.StatusServiceUnavailable, "the rendered configuration of the pool does not exist yet"}
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineConfig %q: %w", joining, err)
	}

	return rendered, nil
}

// readAdditionalFiles returns the files that a machine gets in addition to its configuration. It reads them for each
// request, because tokens are replaced while the program runs.
func (h *handler) readAdditionalFiles() (map[string][]byte, error) {
	if h.kubeconfig == "" {
		return nil, nil
	}

	file, err := os.Open(h.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig for new machines: %w", err)
	}
	defer file.Close()

	data, err := io.ReadAll(io.LimitReader(file, maxKubeconfigSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig for new machines: %w", err)
	}
	if len(data) > maxKubeconfigSize {
		return nil, fmt.Errorf("the kubeconfig for new machines has more than %d bytes", maxKubeconfigSize)
	}

	return map[string][]byte{kubeconfigFile: data}, nil
}

var version3 = regexp.MustCompile(`^3\.([0-9]{1,3})\.[0-9]{1,3}$`)

// acceptedVersion returns the newest minor version of specification 3 that Accept headers name, or config.UnknownVersion if they
// name no version. It returns a *refusal if they name only versions of other specifications.
func acceptedVersion(accept []string) (int, error) {
	accepted, other := config.UnknownVersion, ""
	for _, header := range accept {
		for part := range strings.SplitSeq(header, ",") {
			kind, parameters, err := mime.ParseMediaType(part)
			if err != nil || kind != mediaType || parameters["version"] == "" {
				continue
			}

			match := version3.FindStringSubmatch(parameters["version"])
			if match == nil {
				other = parameters["version"]
				continue
			}

			minor, err := strconv.Atoi(match[1])
			if err == nil {
				accepted = max(accepted, minor)
			}
		}
	}

	if accepted == config.UnknownVersion && other != "" {
		return 0, &refusal{http.StatusNotAcceptable, fmt.Sprintf("the machine reads Ignition configurations of version %.20q; this server has only those of specification 3", other)}
	}

	return accepted, nil
}
