package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrUnauthenticated means that the API server does not accept the credentials.
var ErrUnauthenticated = errors.New("the API server does not accept these credentials")

// Session is a signed-in user.
type Session struct {
	// User is the name by which the API server knows the user.
	User string
	// Groups are the groups of the user.
	Groups []string
	// CSRF is the token that every write must repeat.
	CSRF string
	// Config has the credentials of the user.
	Config *rest.Config
	// Client acts as the user.
	Client client.WithWatch

	key      key
	expires  func() time.Time
	started  time.Time
	lastUsed time.Time
	// isRefused means that the API server has refused the credentials since the session began.
	isRefused atomic.Bool
	// done is closed when the session ends.
	done chan struct{}
}

// Done returns a channel that is closed when the session ends. Streams end with it.
func (s *Session) Done() <-chan struct{} { return s.done }

// HasCSRFToken reports whether a token is that of the session. It takes the same time for every token.
func (s *Session) HasCSRFToken(token string) bool {
	return subtle.ConstantTimeCompare([]byte(s.CSRF), []byte(token)) == 1
}

// Credentials are the credentials of a user for the API server.
type Credentials struct {
	Config *rest.Config
	// Expires returns the time at which the credentials expire, or zero if that is not known. The session ends then, or
	// when the API server refuses the credentials. If Expires is nil, the credentials renew themselves, as those of a
	// kubeconfig do, and the session ends in neither case.
	Expires func() time.Time
}

// New returns a session with the credentials of a user, and its secret for the cookie. It asks the API server who the
// user is. The error wraps ErrUnauthenticated if the API server refuses the credentials.
func New(ctx context.Context, credentials Credentials, scheme *runtime.Scheme) (*Session, string, error) {
	session := &Session{CSRF: rand.Text(), Config: rest.CopyConfig(credentials.Config), expires: credentials.Expires, done: make(chan struct{})}
	if session.expires != nil {
		session.Config.Wrap(session.noteRefusals)
	}

	c, err := client.NewWithWatch(session.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, "", asUnauthenticated(err)
	}

	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return nil, "", asUnauthenticated(err)
	}

	user := review.Status.UserInfo
	if user.Username == "" || user.Username == "system:anonymous" {
		return nil, "", ErrUnauthenticated
	}

	secret := rand.Text()
	session.User, session.Groups, session.Client, session.key = user.Username, user.Groups, c, hashSecret(secret)
	return session, secret, nil
}

// noteRefusals returns a transport that notes responses by which the API server refuses the credentials.
func (s *Session) noteRefusals(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && response.StatusCode == http.StatusUnauthorized {
			s.isRefused.Store(true)
		}
		return response, err
	})
}

// roundTripper is a function as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// hasEnded reports whether the session is over at a time.
func (s *Session) hasEnded(now time.Time, limits Limits) bool {
	if s.isRefused.Load() || now.Sub(s.lastUsed) > limits.Idle || now.Sub(s.started) > limits.Lifetime {
		return true
	}
	if s.expires == nil {
		return false
	}
	expiry := s.expires()
	return !expiry.IsZero() && !now.Before(expiry)
}

func asUnauthenticated(err error) error {
	if apierrors.IsUnauthorized(err) {
		return ErrUnauthenticated
	}
	return fmt.Errorf("asking the API server who you are: %w", err)
}

// Limits limit the sessions of a store.
type Limits struct {
	// Idle is how long a session lives without a request. Lifetime is how long it lives at most.
	Idle, Lifetime time.Duration
	// PerUser is the number of sessions of a user. The oldest ends when a further one begins.
	PerUser int
	// Total is the number of sessions. Further sign-ins are refused.
	Total int
}

// DefaultLimits are the limits of the console.
var DefaultLimits = Limits{Idle: 30 * time.Minute, Lifetime: 12 * time.Hour, PerUser: 10, Total: 1000}

// ErrTooMany means that the store has as many sessions as it may have.
var ErrTooMany = errors.New("too many users are signed in; try again later")

// key identifies a session: the hash of its secret, so that the store cannot leak the secrets.
type key [sha256.Size]byte

func hashSecret(secret string) key { return sha256.Sum256([]byte(secret)) }

// Store keeps sessions. It is safe for concurrent use.
type Store struct {
	limits Limits
	now    func() time.Time

	mu       sync.Mutex
	sessions map[key]*Session
}

// NewStore returns an empty store. The clock now defaults to time.Now.
func NewStore(limits Limits, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{limits: limits, now: now, sessions: map[key]*Session{}}
}

// Add adds a session. It returns ErrTooMany if the store is full.
func (s *Store) Add(session *Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeEnded()
	var oldest *Session
	count := 0
	for _, other := range s.sessions {
		if other.User != session.User {
			continue
		}
		count++
		if oldest == nil || other.started.Before(oldest.started) {
			oldest = other
		}
	}

	if count >= s.limits.PerUser {
		s.remove(oldest)
	}
	if len(s.sessions) >= s.limits.Total {
		return ErrTooMany
	}

	session.started, session.lastUsed = s.now(), s.now()
	s.sessions[session.key] = session
	return nil
}

// Get returns the session of a secret and notes that it is in use. It returns nil if there is none.
func (s *Store) Get(secret string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeEnded()
	session := s.sessions[hashSecret(secret)]
	if session != nil {
		session.lastUsed = s.now()
	}
	return session
}

// Remove ends a session.
func (s *Store) Remove(session *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(session)
}

// RemoveAll ends all sessions.
func (s *Store) RemoveAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		s.remove(session)
	}
}

// remove ends a session. The caller holds the lock.
func (s *Store) remove(session *Session) {
	if s.sessions[session.key] != session {
		return
	}
	delete(s.sessions, session.key)
	close(session.done)
}

// RemoveEnded ends the sessions that are too old, or whose credentials are not valid any more.
func (s *Store) RemoveEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeEnded()
}

// removeEnded implements RemoveEnded. The caller holds the lock.
func (s *Store) removeEnded() {
	now := s.now()
	for _, session := range s.sessions {
		if session.hasEnded(now, s.limits) {
			s.remove(session)
		}
	}
}
