package main

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheOrderRotatesAndNothingIsMissing(t *testing.T) {
	opts, err := parse([]string{"-workloads", "a,e", "-impl", "redlock,redsync-redigo,redsync-redigo-failfast,bsm-redislock", "-turns", "4"})
	require.NoError(t, err)
	b := &bench{opts: opts, masters: fakeMasters{}}
	var got []string
	for _, s := range b.plan() {
		got = append(got, fmt.Sprintf("%d %s %s", s.round, s.workload.Name, s.name()))
	}
	require.Equal(t, []string{
		"0 a redlock", "0 a redsync-redigo", "0 a redsync-redigo-failfast", "0 a bsm-redislock",
		"0 e redlock", "0 e redsync-redigo", "0 e redsync-redigo-failfast",
		"1 a redsync-redigo", "1 a redsync-redigo-failfast", "1 a bsm-redislock", "1 a redlock",
		"1 e redsync-redigo", "1 e redsync-redigo-failfast", "1 e redlock",
		"2 a redsync-redigo-failfast", "2 a bsm-redislock", "2 a redlock", "2 a redsync-redigo",
		"2 e redsync-redigo-failfast", "2 e redlock", "2 e redsync-redigo",
		"3 a bsm-redislock", "3 a redlock", "3 a redsync-redigo", "3 a redsync-redigo-failfast",
		"3 e redlock", "3 e redsync-redigo", "3 e redsync-redigo-failfast",
	}, got)
}

func TestFlags(t *testing.T) {
	opts, err := parse(nil)
	require.NoError(t, err)
	require.Len(t, opts.impls, len(implementations))
	require.Equal(t, []string{"a", "b8", "b64", "b128", "b512", "c", "d", "e", "f", "g", "h"}, names(opts.workloads))
	require.Equal(t, 5, opts.turns)
	require.Equal(t, time.Second, opts.duration)
	require.Equal(t, standardMasters, opts.masters())

	opts, err = parse([]string{"-short", "-turns", "2", "-workloads", "b, b,masters", "-impl", "floor, redsync-goredis"})
	require.NoError(t, err)
	require.Equal(t, 2, opts.turns, "what is asked for counts")
	require.Equal(t, 50*time.Millisecond, opts.duration)
	require.Equal(t, 9, opts.masters())
	require.Equal(t, []string{"b8", "masters1-callers1", "masters1-callers128"}, names(opts.workloads)[:3])
	require.Equal(t, []string{"redsync-goredis", "floor"}, []string{opts.impls[0].name, opts.impls[1].name})

	opts, err = parse([]string{"-workloads", "callers,keys"})
	require.NoError(t, err)
	require.Equal(t, 1024, opts.workloads[10].Callers)
	require.Equal(t, 1024, opts.workloads[20].KeySize)
}

func names(all []workload) (list []string) {
	for _, w := range all {
		list = append(list, w.Name)
	}
	return list
}

func TestWrongFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"-rate", "1"}, "-rate"},
		{[]string{"a"}, `unexpected argument "a"`},
		{[]string{"-workloads", "z"}, `flag -workloads: there is no workload "z"`},
		{[]string{"-workloads", ""}, "flag -workloads"},
		{[]string{"-impl", "etcd"}, `flag -impl: there is no implementation "etcd"`},
		{[]string{"-impl", "redlock,"}, "flag -impl"},
		{[]string{"-callers", "0"}, "0 is not between"},
		{[]string{"-callers", "1,x"}, `"x" is not a number`},
		{[]string{"-duration", "0"}, "flag -duration"},
		{[]string{"-turns", "0"}, "flag -turns"},
		{[]string{"-ttl", "10ms"}, "flag -ttl"},
		{[]string{"-picture", "x.pdf"}, "flag -picture"},
	} {
		_, err := parse(tc.args)
		require.ErrorContains(t, err, tc.want)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := parse([]string{"-h"})
	require.ErrorIs(t, err, flag.ErrHelp)
}

func TestKeysHaveTheirSizeAndAreDistinct(t *testing.T) {
	for _, size := range []int{10, 20, 1024} {
		seen := make(map[string]bool)
		for i := range 1024 {
			k := key(i, size)
			require.Len(t, k, size)
			seen[k] = true
		}
		require.Len(t, seen, 1024)
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, impl := range implementations {
		require.False(t, seen[impl.name], impl.name)
		seen[impl.name] = true
	}
}
