package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/goredlock/redlock/engine"
)

// Config says where the masters are and how to use them. It is a plain value:
// the zero value of every field but Masters means its default, and negative
// means off where that is possible. New checks it as a whole.
type Config struct {
	// Masters are the addresses of the N independent Redis masters, each one
	// of "host:port", "unix:///path/to/socket",
	// "redis://user:password@host:port/db" or the same with "rediss", which is
	// TLS. Between 1 and 64; no two may be the same. One master is a plain
	// Redis lock; an even number tolerates no more failures than one less.
	Masters []string

	// RoundTimeout is how long one round (a command to all masters) waits for
	// answers. The earliest of it, a quarter of the ttl and the context's
	// deadline counts. Default 50 ms; cannot be off.
	RoundTimeout time.Duration

	// RetryDelay is the mean of the random pause that Acquire makes between
	// two attempts, on top of the time that the attempt took. Default 20 ms;
	// negative: as long as the attempt took, at random, and at least 1 ms.
	RetryDelay time.Duration

	// MinValidity is the validity that a lock must have more than when it is
	// handed out; one with less is released again, and the attempt fails with
	// ErrExpired. Default 0; cannot be negative.
	MinValidity time.Duration

	// DriftFactor is the part of a ttl by which the clocks of the masters may
	// run faster than ours. The drift that is taken off a ttl is
	// ttl × DriftFactor + 2 ms. Default 0.01; negative: 0; below 1.
	DriftFactor float64

	// Username and Password log in to the masters whose address names none.
	// A Password alone is for the user "default".
	Username, Password string

	// DB is the database on masters whose address names none. Default 0. All
	// clients must use the same, or their locks do not exclude each other.
	DB int

	// ClientName is what CLIENT LIST shows. Default none. Printable ASCII
	// without spaces.
	ClientName string

	// TLS, if not nil, is used for every master; ServerName is set from the
	// address when it is empty. A "rediss" address gets the default
	// configuration, which verifies certificates, without it.
	TLS *tls.Config

	// DialTimeout limits the connecting to a master, and again the handshake.
	// Default 2 s; cannot be off.
	DialTimeout time.Duration

	// Dial, if not nil, connects in place of net.Dialer; network is "tcp" or
	// "unix". It is called from several goroutines at a time and must end
	// with ctx.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

const (
	defaultRoundTimeout = 50 * time.Millisecond
	defaultRetryDelay   = 20 * time.Millisecond
	defaultDriftFactor  = 0.01
	defaultDialTimeout  = 2 * time.Second

	// silence is how long a master may owe replies without a byte before its
	// connection is given up. Under saturation replies lag more than a
	// RoundTimeout, and a fork for a snapshot stops a large master for longer.
	silence = time.Second
)

// withDefaults returns cfg with its zero values filled in, or what is wrong
// with it.
func (cfg Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"RoundTimeout", &cfg.RoundTimeout, defaultRoundTimeout},
		{"DialTimeout", &cfg.DialTimeout, defaultDialTimeout},
		{"MinValidity", &cfg.MinValidity, 0},
	} {
		switch {
		case *d.value < 0:
			return cfg, fmt.Errorf("redlock: Config.%s is negative: %v", d.name, *d.value)
		case *d.value == 0:
			*d.value = d.def
		}
	}
	switch {
	case cfg.RetryDelay == 0:
		cfg.RetryDelay = defaultRetryDelay
	case cfg.RetryDelay < 0:
		cfg.RetryDelay = 0
	}
	switch {
	case cfg.DriftFactor == 0:
		cfg.DriftFactor = defaultDriftFactor
	case cfg.DriftFactor < 0:
		cfg.DriftFactor = 0
	case !(cfg.DriftFactor < 1): // NaN too
		return cfg, fmt.Errorf("redlock: Config.DriftFactor is %v: it must be below 1", cfg.DriftFactor)
	}
	if smallestTTL(cfg.DriftFactor, cfg.MinValidity) == 0 {
		return cfg, fmt.Errorf("redlock: Config.MinValidity is %v and Config.DriftFactor %v: no ttl leaves so much",
			cfg.MinValidity, cfg.DriftFactor)
	}
	// A round ends after a quarter of the ttl anyway.
	cfg.RoundTimeout = min(cfg.RoundTimeout, maxTTL/4)
	cfg.RetryDelay = min(cfg.RetryDelay, maxTTL/4)
	if cfg.DB < 0 {
		return cfg, fmt.Errorf("redlock: Config.DB is negative: %d", cfg.DB)
	}
	if strings.ContainsFunc(cfg.ClientName, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return cfg, fmt.Errorf("redlock: Config.ClientName %q: only printable ASCII without spaces is possible", cfg.ClientName)
	}
	if cfg.Username != "" && cfg.Password == "" {
		return cfg, errors.New("redlock: Config.Username is set and Config.Password is not")
	}
	return cfg, nil
}

// addresses parses Masters.
func (cfg Config) addresses() ([]engine.Address, error) {
	if len(cfg.Masters) == 0 {
		return nil, errors.New("redlock: Config.Masters is empty")
	}
	if len(cfg.Masters) > engine.MaxMasters {
		return nil, fmt.Errorf("redlock: Config.Masters has %d addresses: at most %d are possible", len(cfg.Masters), engine.MaxMasters)
	}
	addrs := make([]engine.Address, len(cfg.Masters))
	seen := make(map[string]int, len(addrs))
	for i, s := range cfg.Masters {
		a, err := engine.ParseAddress(s)
		if err != nil {
			return nil, fmt.Errorf("redlock: Config.Masters[%d]: %w", i, err)
		}
		if first, ok := seen[a.String()]; ok {
			return nil, fmt.Errorf("redlock: Config.Masters[%d]: %s is Config.Masters[%d] as well", i, a, first)
		}
		seen[a.String()] = i
		addrs[i] = a
	}
	return addrs, nil
}

func (cfg Config) engine(addrs []engine.Address) engine.Config {
	return engine.Config{
		Masters: addrs,
		Dial: engine.DialOptions{
			Username:   cfg.Username,
			Password:   cfg.Password,
			DB:         cfg.DB,
			ClientName: cfg.ClientName,
			TLS:        cfg.TLS,
			Dial:       cfg.Dial,
			Timeout:    cfg.DialTimeout,
		},
		RoundTimeout: cfg.RoundTimeout,
		Silence:      max(silence, 4*cfg.RoundTimeout),
	}
}
