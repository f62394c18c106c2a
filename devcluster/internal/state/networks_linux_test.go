package state

import "testing"

func TestParseRoute(t *testing.T) {
	for _, test := range []struct{ name, line, want string }{
		{"default", "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0", "0.0.0.0/0"},
		{"network", "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0", "192.0.2.0/24"},
		{"large network", "tun0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0", "10.0.0.0/8"},
		{"too short", "eth0\t00000000", ""},
		{"no number", "eth0\tzz000000\t0\t0\t0\t0\t0\t00000000", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseRoute(test.line)
			if test.want == "" {
				if err == nil {
					t.Errorf("got %s, want an error", got)
				}
				return
			}
			if err != nil || got.String() != test.want {
				t.Errorf("got %s, error %v; want %s", got, err, test.want)
			}
		})
	}
}
