package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
)

// An operator in a cluster without a ClusterVersion says so in its log, and how to create one.
func TestAbsenceIsLogged(t *testing.T) {
	w := newWorld(t)
	logged := make(chan string, 1000)
	w.log = funcr.New(func(_, text string) { logged <- text }, funcr.Options{})
	w.run(Options{})

	deadline := time.After(patience)
	for {
		select {
		case text := <-logged:
			if strings.Contains(text, "There is no ClusterVersion") && strings.Contains(text, "mainstay cluster init") {
				return
			}
		case <-deadline:
			t.Fatal("the log does not say that there is no ClusterVersion")
		}
	}
}
