package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
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
	started  time.Time
	lastUsed time.Time
	// done is closed when the session ends.
	done chan struct{}
}

// Done returns a channel that is closed when the session ends. Streams end with it.
func (s *Session) Done() <-chan struct{} { return s.done }

// HasCSRFToken reports whether a token is that of the session. It takes the same time for every token.
func (s *Session) HasCSRFToken(token string) bool {
	return subtle.ConstantTimeCompare([]byte(s.CSRF), []byte(token)) == 1
}

// New returns a session for the user of a configuration, and its secret for the cookie. It asks the API server who the
// user is. The error wraps ErrUnauthenticated if the API server refuses the credentials.
func New(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (*Session, string, error) {
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
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
	return &Session{
		User: user.Username, Groups: user.Groups, CSRF: rand.Text(), Config: config, Client: c,
		key: hashSecret(secret), done: make(chan struct{}),
	}, secret, nil
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
	s.removeExpired()
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
	s.removeExpired()
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

// removeExpired ends the sessions that are too old. The caller holds the lock.
func (s *Store) removeExpired() {
	now := s.now()
	for _, session := range s.sessions {
		if now.Sub(session.lastUsed) > s.limits.Idle || now.Sub(session.started) > s.limits.Lifetime {
			s.remove(session)
		}
	}
}
