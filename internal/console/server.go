package console

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/clusterhub"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// Options configure a console.
type Options struct {
	// Assets are the built pages, with index.html at the root.
	Assets fs.FS
	// Config reaches the API server. With a Secret it has the credentials of the user, else it has none.
	Config *rest.Config
	// Secret signs the user of Config in, once. It makes a console for one person on their own machine. Empty means a
	// console for all users of a cluster.
	Secret string
	// OIDC signs users in with an identity provider. Nil means that they paste a token.
	OIDC *OIDC
	// Hosts are the values of the header Host that are answered. Empty means all.
	Hosts []string
	// Insecure omits the attribute Secure of the cookie, for plain HTTP on the loopback interface.
	Insecure bool
	// Version is shown to users.
	Version string
	Log     logr.Logger
	// Registry pulls the bundles whose least rights are generated, and whose configuration is edited.
	Registry catalogs.Registry
	// Limits limit the sessions. The default is session.DefaultLimits.
	Limits session.Limits
	// Now is the clock of the sessions. The default is time.Now.
	Now func() time.Time
}

// Server is a console.
type Server struct {
	options  Options
	scheme   *runtime.Scheme
	sessions *session.Store
	secret   *oneTimeSecret
	packages *clusterhub.Cache
	api      huma.API
	handler  http.Handler
}

// New returns a console.
func New(options Options) (*Server, error) {
	if options.Limits == (session.Limits{}) {
		options.Limits = session.DefaultLimits
	}

	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}

	s := &Server{options: options, scheme: scheme, sessions: session.NewStore(options.Limits, options.Now), packages: clusterhub.NewCache()}
	if options.Secret != "" {
		s.secret = newOneTimeSecret(options.Secret)
	}

	pages, err := newPages(options.Assets)
	if err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	s.api = humago.New(mux, newAPIConfig(options.Version))
	s.api.UseMiddleware(addOperation)
	s.registerOperations()
	mux.Handle("/", pages)
	if options.OIDC != nil {
		options.OIDC.registerPaths(mux, s)
	}

	operations, err := compressPackages(mux)
	if err != nil {
		return nil, err
	}
	s.handler = s.checkHost(addSecurityHeaders(http.NewCrossOriginProtection().Handler(s.addSession(operations))))
	return s, nil
}

// newScheme returns the kinds of internal/action, and those that sessions ask the API server with.
func newScheme() (*runtime.Scheme, error) {
	scheme, err := action.Scheme()
	if err != nil {
		return nil, err
	}
	return scheme, errors.Join(authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme))
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends all sessions, and with them the streams that are open.
func (s *Server) Close() { s.sessions.RemoveAll() }

// OpenAPI returns the OpenAPI document of the API, as YAML.
func (s *Server) OpenAPI() ([]byte, error) { return s.api.OpenAPI().YAML() }

// apiPrefix is the path of the API.
const apiPrefix = "/api/v1"

// Lists of responses are never null: those that may be empty are omitted or written as [].
func init() { huma.DefaultArrayNullable = false }

func newAPIConfig(version string) huma.Config {
	config := huma.DefaultConfig("Mainstay console", version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no links to schemas in responses
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[metav1.Duration](), reflect.TypeFor[string]())
	return config
}

// cookieName returns the name of the session cookie. The prefix __Host- makes browsers refuse it from other hosts.
func (s *Server) cookieName() string {
	if s.options.Insecure {
		return "mainstay-session"
	}
	return "__Host-mainstay-session"
}

// newCookie returns the session cookie with a secret. An empty secret deletes it.
func (s *Server) newCookie(secret string) *http.Cookie {
	cookie := &http.Cookie{ //nolint:gosec // it is insecure only for plain HTTP on the loopback interface
		Name: s.cookieName(), Value: secret, Path: "/", HttpOnly: true, Secure: !s.options.Insecure, SameSite: http.SameSiteStrictMode,
	}
	if secret == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// checkHost refuses requests for other hosts, so that a page of another site cannot reach the console by a name that
// resolves to this machine.
func (s *Server) checkHost(next http.Handler) http.Handler {
	if len(s.options.Hosts) == 0 {
		return next
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, host := range s.options.Hosts {
			if strings.EqualFold(r.Host, host) {
				next.ServeHTTP(w, r)
				return
			}
		}
		http.Error(w, fmt.Sprintf("This console answers only at %s.", strings.Join(s.options.Hosts, " and ")), http.StatusMisdirectedRequest)
	})
}

// sessionKey is the key of the session in a request's context.
type sessionKey struct{}

// sessionOf returns the session of a request, or nil.
func sessionOf(ctx context.Context) *session.Session {
	s, _ := ctx.Value(sessionKey{}).(*session.Session)
	return s
}

// csrfHeader is the header with the CSRF token of the session.
const csrfHeader = "X-CSRF-Token"

// publicPaths are the paths of the API that need no session.
var publicPaths = map[string]bool{"GET " + apiPrefix + "/session": true, "POST " + apiPrefix + "/session": true}

// addSession adds the session to a request. It refuses requests of the API without a session, and writes without the
// CSRF token.
func (s *Server) addSession(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/") {
			next.ServeHTTP(w, r)
			return
		}

		var current *session.Session
		if cookie, err := r.Cookie(s.cookieName()); err == nil {
			current = s.sessions.Get(cookie.Value)
		}

		isPublic := publicPaths[r.Method+" "+r.URL.Path]
		switch {
		case current == nil && !isPublic:
			writeProblem(w, newProblem(http.StatusUnauthorized, "You are not signed in, or your session has ended.", "Sign in again."))
			return
		case current != nil && !isPublic && isWrite(r.Method) && !current.HasCSRFToken(r.Header.Get(csrfHeader)):
			s.options.Log.Info("Request refused, because it lacks the CSRF token", "user", current.User, "method", r.Method, "path", r.URL.Path)
			writeProblem(w, newProblem(http.StatusForbidden, "The request lacks the CSRF token of your session.", "Reload the page."))
			return
		}

		if current != nil {
			r = r.WithContext(context.WithValue(r.Context(), sessionKey{}, current))
		}
		next.ServeHTTP(w, r)
	})
}

func isWrite(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// oneTimeSecret is a secret that signs in once.
type oneTimeSecret struct{ value chan string }

func newOneTimeSecret(value string) *oneTimeSecret {
	s := &oneTimeSecret{value: make(chan string, 1)}
	s.value <- value
	return s
}

// errWrongSecret means that the address of the console has been used already, or that it is wrong.
var errWrongSecret = errors.New("this address signs in once, and has been used already")

// redeemSecret accepts the secret the first time.
func (s *oneTimeSecret) redeemSecret(candidate string) error {
	select {
	case value := <-s.value:
		if subtle.ConstantTimeCompare([]byte(value), []byte(candidate)) == 1 {
			return nil
		}
		s.value <- value
	default:
	}
	return errWrongSecret
}
