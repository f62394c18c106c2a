package server

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"

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
	// maxConcurrentAnswers limits the answers that are rendered in parallel. Each takes about five times the 1.5 MiB that a
	// configuration may have.
	maxConcurrentAnswers = 8
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
	// answers is the semaphore of answers that are being rendered.
	answers chan struct{}
}

// newHandler returns the handler of one listener.
func newHandler(reader client.Reader, log logr.Logger, kubeconfig string, answers chan struct{}) http.Handler {
	h := &handler{reader: reader, log: log, kubeconfig: kubeconfig, answers: answers}
	mux := http.NewServeMux()
	// Both patterns match HEAD as well.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /config/{pool}", h.serveConfig)
	return mux
}

// refusal is an answer without a configuration.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// serveConfig serves the configuration of a pool to a new machine.
func (h *handler) serveConfig(w http.ResponseWriter, r *http.Request) {
	data, err := h.renderAnswer(r)
	if err != nil {
		var refused *refusal
		if !errors.As(err, &refused) {
			// The client is not authenticated: only the log has the details.
			h.log.Error(err, "A machine gets no configuration", "pool", r.PathValue("pool"), "machine", r.RemoteAddr)
			refused = &refusal{http.StatusInternalServerError, "the configuration cannot be given: the log of machine-config-server says why"}
		}

		if refused.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}

		http.Error(w, refused.text, refused.status)
		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("Vary", "Accept")
	if r.Method == http.MethodGet {
		h.log.Info("Giving a machine its configuration", "pool", r.PathValue("pool"), "machine", r.RemoteAddr)
	}

	w.Header().Set("X-Content-Type-Options", "nosniff")
	// The machine may have disconnected; it retries.
	_, _ = w.Write(data) //nolint:gosec // G705: it is JSON and said to be, made of objects of the cluster
}

func (h *handler) renderAnswer(r *http.Request) ([]byte, error) {
	asked, err := acceptedVersion(r.Header.Values("Accept"))
	if err != nil {
		return nil, err
	}

	select {
	case h.answers <- struct{}{}:
		defer func() { <-h.answers }()
	case <-r.Context().Done():
		return nil, &refusal{http.StatusServiceUnavailable, "too many machines ask at once"}
	}

	name := r.PathValue("pool")
	pool := &mcfgv1.MachineConfigPool{}
	err = h.reader.Get(r.Context(), client.ObjectKey{Name: name}, pool)
	if apierrors.IsNotFound(err) {
		return nil, &refusal{http.StatusNotFound, "there is no pool of that name"}
	}
	if err != nil {
		return nil, fmt.Errorf("reading pool %q: %w", name, err)
	}

	rendered := &mcfgv1.MachineConfig{}
	joining := pools.Joining(pool)
	if joining == "" {
		return nil, &refusal{http.StatusServiceUnavailable, "nothing was rendered for the pool yet"}
	}

	err = h.reader.Get(r.Context(), client.ObjectKey{Name: joining}, rendered)
	if apierrors.IsNotFound(err) {
		return nil, &refusal{http.StatusServiceUnavailable, "the configuration of the pool is not there yet"}
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineConfig %q: %w", joining, err)
	}

	beside, err := h.readAdditionalFiles()
	if err != nil {
		return nil, err
	}

	data, err := config.FirstBoot(rendered, asked, beside)
	var older *config.VersionError
	if errors.As(err, &older) {
		return nil, &refusal{http.StatusNotAcceptable, older.Error()}
	}

	return data, err
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

// acceptedVersion returns from Accept headers the newest minor version of specification 3 that a machine reads;
// config.UnknownVersion when they name none. It fails when they name only other specifications.
func acceptedVersion(accept []string) (int, error) {
	asked, other := config.UnknownVersion, ""
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
				asked = max(asked, minor)
			}
		}
	}

	if asked == config.UnknownVersion && other != "" {
		return 0, &refusal{http.StatusNotAcceptable, fmt.Sprintf("the machine reads Ignition configurations of version %.20q; there are those of specification 3", other)}
	}
	return asked, nil
}
