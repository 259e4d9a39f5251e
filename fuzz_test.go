package redlock

import (
	"math"
	"strings"
	"testing"
	"time"
)

// FuzzConfig: whatever a Config holds, New's checks end, do not panic, name a
// field when they refuse it, and otherwise leave values that the arithmetic of
// a lock can bear.
func FuzzConfig(f *testing.F) {
	f.Add("10.0.0.1:6379", int64(0), int64(0), int64(0), int64(0), 0.0, 0, "", "", "")
	f.Add("redis://u:p@h/1 unix:///a", int64(1), int64(-1), int64(time.Hour), int64(1), 0.5, 3, "name", "u", "secret")
	f.Add("[::1]:1 [::1%25eth0]:1", int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), 0.999999999999, 0, "", "", "")
	f.Add("", int64(-1), int64(0), int64(0), int64(0), math.NaN(), -1, "a b", "u", "")
	f.Add("a:1 A:1", int64(0), int64(0), int64(0), int64(0), math.Inf(1), 0, "", "", "")
	f.Add("redis://u:secret%zz@a:1", int64(0), int64(0), int64(1e17), int64(0), 1-1e-15, 0, "", "", "secret")
	f.Fuzz(func(t *testing.T, masters string, round, retry, least, dial int64, factor float64, db int, name, user, password string) {
		cfg := Config{
			Masters:      strings.Split(masters, " "),
			RoundTimeout: time.Duration(round), RetryDelay: time.Duration(retry),
			MinValidity: time.Duration(least), DialTimeout: time.Duration(dial),
			DriftFactor: factor, DB: db, ClientName: name, Username: user, Password: password,
		}
		checked, err := cfg.withDefaults()
		if err != nil {
			refused(t, err)
			return
		}
		addrs, err := checked.addresses()
		if err != nil {
			refused(t, err)
			if cut := strings.IndexByte(err.Error(), '\n'); cut >= 0 {
				t.Fatalf("two lines: %q", err)
			}
			return
		}
		if len(addrs) != len(cfg.Masters) {
			t.Fatalf("%d addresses of %d", len(addrs), len(cfg.Masters))
		}
		e := checked.engine(addrs)
		if e.RoundTimeout <= 0 || e.Silence < e.RoundTimeout || e.Dial.Timeout <= 0 || e.Dial.DB < 0 {
			t.Fatalf("%+v", e)
		}
		smallest := smallestTTL(checked.DriftFactor, checked.MinValidity)
		c := &Client{cfg: checked}
		if err := c.checkTTL(smallest); err != nil {
			t.Fatal(err)
		}
		if err := c.checkTTL(smallest - time.Millisecond); err == nil {
			t.Fatalf("%v is not the smallest ttl", smallest)
		}
		if retryPause(checked.RetryDelay, time.Second, 0.999) < time.Second {
			t.Fatal("a retry before its time")
		}
	})
}

func refused(t *testing.T, err error) {
	if !strings.HasPrefix(err.Error(), "redlock: Config.") {
		t.Fatalf("the error names no field: %v", err)
	}
}
