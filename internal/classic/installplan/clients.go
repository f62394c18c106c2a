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

// maxAccounts is how many clients are kept, one for each account. Connections are shared.
const maxAccounts = 128

// clients returns clients that read and write with the rights of an account, and keep what the API server
// warns of.
type clients struct {
	config *rest.Config
	// options are those of every client. No client has a cache: what was just written is read.
	options client.Options
	kept    *lru.Cache
	grants  *selfgrant.Granter
}

func newClients(mgr ctrl.Manager, grants *selfgrant.Granter) *clients {
	config := rest.CopyConfig(mgr.GetConfig())
	config.WarningHandler, config.WarningHandlerWithContext = nil, keeper{}
	return &clients{config: config, options: client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}, kept: lru.New(maxAccounts), grants: grants}
}

// of returns the client of an account; nil is the controller's own. An account is impersonated by its
// user name alone: the API server adds the groups that a ServiceAccount is in.
func (c *clients) of(ctx context.Context, account *corev1.ObjectReference) (client.Client, error) {
	user := ""
	if account != nil {
		if err := c.grants.Impersonate(ctx, types.NamespacedName{Namespace: account.Namespace, Name: account.Name}); err != nil {
			return nil, err
		}
		user = fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name)
	}

	if kept, ok := c.kept.Get(user); ok {
		return kept.(client.Client), nil
	}

	config := rest.CopyConfig(c.config)
	if account != nil {
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
	}

	made, err := client.New(config, c.options)
	if err != nil {
		return nil, fmt.Errorf("making a client for %q: %w", user, err)
	}

	c.kept.Add(user, made)
	return made, nil
}

// warnings are what the API server warns of while a step is executed.
type warnings struct {
	mu   sync.Mutex
	said []string
}

type warningsKey struct{}

// keep has warnings be kept that come in answers to requests of the context.
func keep(ctx context.Context) (context.Context, *warnings) {
	w := &warnings{}
	return context.WithValue(ctx, warningsKey{}, w), w
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

// keeper puts warnings where the context of the request has them be kept.
type keeper struct{}

// codeMiscellaneous is that of warnings which are meant for people.
const codeMiscellaneous = 299

func (keeper) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	w, ok := ctx.Value(warningsKey{}).(*warnings)
	if !ok || code != codeMiscellaneous || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}
