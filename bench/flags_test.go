package main

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	standard := options{callers: []int{1, 16, 128}, duration: 2 * time.Second, ttl: 10 * time.Second, ready: readyTimeout}
	with := func(change func(*options)) options {
		o := standard
		change(&o)
		return o
	}
	for _, tc := range []struct {
		name string
		args []string
		want options
	}{
		{"none", nil, standard},
		{"callers", []string{"-callers", "1, 512"}, with(func(o *options) { o.callers = []int{1, 512} })},
		{"the most callers", []string{"-callers=10000"}, with(func(o *options) { o.callers = []int{10000} })},
		{"duration", []string{"-duration", "1ms"}, with(func(o *options) { o.duration = time.Millisecond })},
		{"the smallest ttl", []string{"-ttl", "3ms"}, with(func(o *options) { o.ttl = 3 * time.Millisecond })},
		{"json", []string{"-json"}, with(func(o *options) { o.json = true })},
		{"masters", []string{"-masters", "a:1, redis://u:p@b,unix:///c"}, with(func(o *options) { o.masters = []string{"a:1", "redis://u:p@b", "unix:///c"} })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts, err := parse(tc.args)
			require.NoError(t, err)
			require.Equal(t, tc.want, opts)
		})
	}
}

func TestWrongFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"unknown flag", []string{"-rate", "1"}, []string{"-rate"}},
		{"argument", []string{"10s"}, []string{`unexpected argument "10s"`}},
		{"no callers", []string{"-callers", "0"}, []string{"-callers", "0 is not between 1 and 10000"}},
		{"negative callers", []string{"-callers", "1,-1"}, []string{"-callers", "-1 is not between 1 and 10000"}},
		{"too many callers", []string{"-callers", "10001"}, []string{"-callers", "10001 is not between"}},
		{"callers are words", []string{"-callers", "1,many"}, []string{"-callers", `"many" is not a number`}},
		{"empty callers", []string{"-callers", ""}, []string{"-callers", `"" is not a number`}},
		{"no duration", []string{"-duration", "0"}, []string{"0s for flag -duration", "must be positive"}},
		{"negative duration", []string{"-duration", "-1s"}, []string{"-1s for flag -duration", "must be positive"}},
		{"duration without a unit", []string{"-duration", "5"}, []string{`"5" for flag -duration`}},
		{"ttl that the drift eats", []string{"-ttl", "2ms"}, []string{"2ms for flag -ttl", "no validity", "3ms"}},
		{"negative ttl", []string{"-ttl", "-1s"}, []string{"-1s for flag -ttl", "not positive"}},
		{"empty masters", []string{"-masters", ""}, []string{"-masters", "empty"}},
		{"an empty master", []string{"-masters", "a:1,"}, []string{"-masters", "Masters[1]", "empty"}},
		{"master without a port", []string{"-masters", "a:1,b"}, []string{"-masters", "Masters[1]", "missing port"}},
		{"a master twice", []string{"-masters", "a:1,redis://A:1"}, []string{"-masters", "a:1"}},
		{"unknown scheme", []string{"-masters", "http://a:1"}, []string{"-masters", "unknown scheme"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(tc.args)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "\n")
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}

	t.Run("help", func(t *testing.T) {
		_, err := parse([]string{"-help"})
		require.ErrorIs(t, err, flag.ErrHelp)
	})
	t.Run("passwords are not shown", func(t *testing.T) {
		for _, masters := range []string{"redis://u:hush@a:b", "u:hush@a:1", "redis://u:hush@a:1,redis://u:hush@a:1"} {
			_, err := parse([]string{"-masters", masters})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hush")
		}
	})
}
