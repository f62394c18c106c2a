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

// logins reads the logins that the cluster holds.
type logins struct {
	reader client.Reader
	// secret is the Secret that the administrator names. account is the program's own service
	// account. The zero value means none.
	secret, account client.ObjectKey
	log             logr.Logger

	mu              sync.Mutex
	reportedMissing []string // what was logged as missing
}

// readAllConfigs returns the logins, each as a Docker config. Those of the named Secret come first
// and take precedence. Secrets that do not exist are skipped and logged once.
func (l *logins) readAllConfigs(ctx context.Context) ([][]byte, error) {
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
		config, err := l.readPullSecret(ctx, key)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, "Secret "+key.String())
		case err != nil:
			return nil, err
		default:
			configs = append(configs, config)
		}
	}

	l.logMissingSecrets(missing)
	return configs, nil
}

// readConfigs returns the logins of Secrets, each as a Docker config. Those that do not exist are
// skipped.
func (l *logins) readConfigs(ctx context.Context, secrets []client.ObjectKey) ([][]byte, error) {
	var configs [][]byte
	for _, key := range secrets {
		config, err := l.readPullSecret(ctx, key)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		configs = append(configs, config)
	}

	return configs, nil
}

func (l *logins) readPullSecret(ctx context.Context, key client.ObjectKey) ([]byte, error) {
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

// logMissingSecrets logs which Secrets are missing if that has changed.
func (l *logins) logMissingSecrets(missing []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(missing, l.reportedMissing) {
		return
	}

	l.reportedMissing = missing
	if len(missing) > 0 {
		l.log.Info("pull secrets do not exist; images are pulled without their logins", "missing", missing)
	}
}

// maxTokenBytes limits the file of a service account's token.
const maxTokenBytes = 64 << 10

// ownServiceAccount returns the service account that the program runs as in a cluster. It is empty
// outside of a cluster.
func ownServiceAccount(config *rest.Config) (client.ObjectKey, error) {
	if config.BearerTokenFile == "" {
		return client.ObjectKey{}, nil
	}

	token, err := os.ReadFile(config.BearerTokenFile)
	if err != nil {
		return client.ObjectKey{}, fmt.Errorf("reading the ServiceAccount's token: %w", err)
	}

	account, err := parseTokenSubject(string(token))
	if err != nil {
		return client.ObjectKey{}, fmt.Errorf("reading the ServiceAccount's token %s: %w", config.BearerTokenFile, err)
	}

	return account, nil
}

// parseTokenSubject returns the service account of a token. It does not verify the token, because
// it is the program's own.
func parseTokenSubject(token string) (client.ObjectKey, error) {
	if len(token) > maxTokenBytes {
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
		return client.ObjectKey{}, nil // The token of a user or a node has no pull secrets.
	}

	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}
