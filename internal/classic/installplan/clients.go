package installplan

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/classic/selfgrant"
)

// maxCachedClients limits the cached clients, one for each service account. Connections are shared.
const maxCachedClients = 128

// clientCache returns clients that impersonate service accounts and collect the warnings of the API server.
type clientCache struct {
	config *rest.Config
	// options are those of every client. The clients have no cache, so that they read the latest writes.
	options client.Options
	cached  *lru.Cache
	grants  *selfgrant.Granter
}

func newClientCache(mgr ctrl.Manager, grants *selfgrant.Granter) *clientCache {
	config := rest.CopyConfig(mgr.GetConfig())
	config.WarningHandler, config.WarningHandlerWithContext = nil, warningCollector{}
	return &clientCache{config: config, options: client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}, cached: lru.New(maxCachedClients), grants: grants}
}

// clientFor returns a client that impersonates a service account; nil means the controller itself. Impersonation sets
// only the user name: the API server adds the groups of a service account.
func (c *clientCache) clientFor(ctx context.Context, account *corev1.ObjectReference) (client.Client, error) {
	user := ""
	if account != nil {
		if err := c.grants.Impersonate(ctx, types.NamespacedName{Namespace: account.Namespace, Name: account.Name}); err != nil {
			return nil, err
		}
		user = fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name)
	}

	if existing, ok := c.cached.Get(user); ok {
		return existing.(client.Client), nil
	}

	config := rest.CopyConfig(c.config)
	if account != nil {
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
	}

	created, err := client.New(config, c.options)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %q: %w", user, err)
	}

	c.cached.Add(user, created)
	return created, nil
}

// warnings collects the warnings of the API server during a step.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

type warningsKey struct{}

// collectWarnings returns a context whose requests add their warnings to the returned collection.
func collectWarnings(ctx context.Context) (context.Context, *warnings) {
	w := &warnings{}
	return context.WithValue(ctx, warningsKey{}, w), w
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.texts
}

// warningCollector adds a warning to the collection in the context of its request.
type warningCollector struct{}

// codeMiscellaneous is the HTTP warning code for messages to users.
const codeMiscellaneous = 299

func (warningCollector) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	w, ok := ctx.Value(warningsKey{}).(*warnings)
	if !ok || code != codeMiscellaneous || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}
