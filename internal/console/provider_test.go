package console_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	clientID     = "mainstay-console"
	clientSecret = "client-secret"
)

// provider is a small OpenID Connect provider. Its tokens have real signatures. It signs all browsers in as user.
type provider struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu sync.Mutex
	// codes are the sign-ins that have not been redeemed, by code; refreshes are the valid refresh tokens.
	codes     map[string]url.Values
	refreshes map[string]bool
	// settings are those of the current test.
	settings providerSettings
}

// providerSettings configures the behavior of a provider.
type providerSettings struct {
	user string
	// now is the clock. Nil means time.Now.
	now func() time.Time
	// lifetime is that of ID tokens. Zero means an hour.
	lifetime time.Duration
	// canRefresh issues refresh tokens.
	canRefresh bool
	// isAway rejects every request for a token, isRevoked those with a refresh token.
	isAway, isRevoked bool
	// change changes the claims of an ID token.
	change func(claims map[string]any)
	// key signs ID tokens. Nil means that of the provider.
	key *rsa.PrivateKey
}

func newProvider() *provider {
	p := &provider{key: newKey(), codes: map[string]url.Values{}, refreshes: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.issue)
	p.Server = httptest.NewTLSServer(mux)
	return p
}

func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

func (p *provider) set(change func(*providerSettings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.settings)
}

// ca is the certificate of the provider.
func (p *provider) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
}

// authorize signs the user in and sends the browser back with a code.
func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	query := r.URL.Query()
	if query.Get("client_id") != clientID || query.Get("code_challenge_method") != "S256" || query.Get("redirect_uri") != origin+"/auth/callback" {
		http.Error(w, "invalid_request", http.StatusBadRequest)
		return
	}

	code := rand.Text()
	p.codes[code] = query
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {query.Get("state")}}.Encode(), http.StatusFound)
}

// issue responds with tokens for a code or a refresh token.
func (p *provider) issue(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, isHeader := r.BasicAuth()
	if !isHeader {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	if p.settings.isAway {
		http.Error(w, "away", http.StatusBadGateway)
		return
	}
	if id != clientID || secret != clientSecret {
		refuse(w, "invalid_client")
		return
	}

	nonce := ""
	switch r.FormValue("grant_type") {
	case "authorization_code":
		query, ok := p.codes[r.FormValue("code")]
		delete(p.codes, r.FormValue("code"))
		challenge := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(challenge[:]) != query.Get("code_challenge") {
			refuse(w, "invalid_grant")
			return
		}
		nonce = query.Get("nonce")
	case "refresh_token":
		if p.settings.isRevoked || !p.refreshes[r.FormValue("refresh_token")] {
			refuse(w, "invalid_grant")
			return
		}
		delete(p.refreshes, r.FormValue("refresh_token")) // each is valid once
	}

	answer := map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 3600, "id_token": p.newIDToken(nonce)}
	if p.settings.canRefresh {
		refresh := rand.Text()
		p.refreshes[refresh] = true
		answer["refresh_token"] = refresh
	}
	writeJSON(w, answer)
}

// newIDToken returns a signed token. The caller holds the lock.
func (p *provider) newIDToken(nonce string) string {
	now, lifetime, key := time.Now(), p.settings.lifetime, p.settings.key
	if p.settings.now != nil {
		now = p.settings.now()
	}
	if lifetime == 0 {
		lifetime = time.Hour
	}
	if key == nil {
		key = p.key
	}

	claims := map[string]any{
		"iss": p.URL, "aud": clientID, "sub": p.settings.user, "email": p.settings.user + "@example.com", "email_verified": true,
		"groups": []string{"developers"}, "iat": now.Unix(), "exp": now.Add(lifetime).Unix(), "nonce": nonce,
	}
	if p.settings.change != nil {
		p.settings.change(claims)
	}

	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		panic(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return token
}

func refuse(w http.ResponseWriter, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": reason, "error_description": "this text is not shown"})
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
