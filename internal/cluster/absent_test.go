package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// Without a ClusterVersion the operator logs that none exists, and how to create one.
func TestAbsenceIsLogged(t *testing.T) {
	f := newFixture(t)
	logged := make(chan string, 1000)
	f.log = funcr.New(func(_, text string) { logged <- text }, funcr.Options{})
	f.startOperator(Options{})

	deadline := time.After(env.WaitTimeout)
	for {
		select {
		case text := <-logged:
			if strings.Contains(text, "There is no ClusterVersion") && strings.Contains(text, "mainstay cluster init") {
				return
			}
		case <-deadline:
			t.Fatal("got no log message about the missing ClusterVersion, want one")
		}
	}
}
