package pull

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=serviceaccounts;secrets,verbs=get

// logins are those that the cluster holds.
type logins struct {
	reader client.Reader
	// secret is named by the operator of the program, account is the program's own. Zero:
	// there is none.
	secret, account client.ObjectKey
	log             logr.Logger

	mu      sync.Mutex
	missing []string // what was told of as missing
}

// read returns the logins, each a Docker config: first those of the named Secret, which beat
// the others. What does not exist holds none; it is told of once.
func (l *logins) read(ctx context.Context) ([][]byte, error) {
	var keys []client.ObjectKey
	if l.secret.Name != "" {
		keys = append(keys, l.secret)
	}

	var missing []string
	if l.account.Name != "" {
		var account corev1.ServiceAccount
		err := l.reader.Get(ctx, l.account, &account)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, "ServiceAccount "+l.account.String())
		case err != nil:
			return nil, fmt.Errorf("reading the ServiceAccount %s: %w", l.account, err)
		}
		for _, secret := range account.ImagePullSecrets {
			keys = append(keys, client.ObjectKey{Namespace: l.account.Namespace, Name: secret.Name})
		}
	}

	var configs [][]byte
	for _, key := range keys {
		config, err := l.readSecret(ctx, key)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, "Secret "+key.String())
		case err != nil:
			return nil, err
		default:
			configs = append(configs, config)
		}
	}

	l.tell(missing)
	return configs, nil
}

func (l *logins) readSecret(ctx context.Context, key client.ObjectKey) ([]byte, error) {
	var secret corev1.Secret
	if err := l.reader.Get(ctx, key, &secret); err != nil {
		return nil, fmt.Errorf("reading the pull secret %s: %w", key, err)
	}

	for _, field := range []string{corev1.DockerConfigJsonKey, corev1.DockerConfigKey} {
		if data, ok := secret.Data[field]; ok {
			return data, nil
		}
	}
	return nil, fmt.Errorf("the pull secret %s has neither %s nor %s", key, corev1.DockerConfigJsonKey, corev1.DockerConfigKey)
}

// tell logs what is missing when that has changed.
func (l *logins) tell(missing []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(missing, l.missing) {
		return
	}

	l.missing = missing
	if len(missing) > 0 {
		l.log.Info("pull secrets do not exist; images are pulled without their logins", "missing", missing)
	}
}

// maxToken bounds the file of a ServiceAccount's token, in bytes.
const maxToken = 64 << 10

// ownAccount returns the ServiceAccount that the program runs as in a cluster, none when it
// runs elsewhere.
func ownAccount(config *rest.Config) (client.ObjectKey, error) {
	if config.BearerTokenFile == "" {
		return client.ObjectKey{}, nil
	}

	token, err := os.ReadFile(config.BearerTokenFile)
	if err != nil {
		return client.ObjectKey{}, fmt.Errorf("reading the ServiceAccount's token: %w", err)
	}

	account, err := accountOf(string(token))
	if err != nil {
		return client.ObjectKey{}, fmt.Errorf("reading the ServiceAccount's token %s: %w", config.BearerTokenFile, err)
	}

	return account, nil
}

// accountOf reads whose a token is. It is the program's own: nothing is verified.
func accountOf(token string) (client.ObjectKey, error) {
	if len(token) > maxToken {
		return client.ObjectKey{}, errors.New("it is too long for a token")
	}

	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return client.ObjectKey{}, errors.New("it is not a JSON web token")
	}

	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return client.ObjectKey{}, errors.New("it is not a JSON web token")
	}

	var claims struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return client.ObjectKey{}, errors.New("it is not a JSON web token")
	}

	namespace, name, ok := strings.Cut(strings.TrimPrefix(claims.Subject, "system:serviceaccount:"), ":")
	if !ok || !strings.HasPrefix(claims.Subject, "system:serviceaccount:") || namespace == "" || name == "" {
		return client.ObjectKey{}, nil // A person's, or a node's: it has no pull secrets.
	}

	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}
