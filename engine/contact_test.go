package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAMasterIsDialedAtOnceAndThenWithPauses(t *testing.T) {
	var c contact
	require.Zero(t, c.pause(0))
	require.False(t, c.tried)
	c.dialFailed()
	require.True(t, c.tried)
	require.Equal(t, firstBackOff, c.pause(0))
	c.dialFailed()
	require.Equal(t, 2*firstBackOff, c.pause(0))

	c.cameUp(time.Minute)
	c.wentDown(time.Minute + settledAfter)
	require.Equal(t, 4*firstBackOff, c.pause(0), "it did not live long")
	c.cameUp(time.Hour)
	c.wentDown(time.Hour + settledAfter + 1)
	require.Equal(t, firstBackOff, c.pause(0), "it did")
}

func TestAMasterIsSilentOnlyWhileItOwes(t *testing.T) {
	const limit = time.Second
	for _, tc := range []struct {
		name   string
		events func(*contact)
		owes   bool
		looks  []instant
		silent bool
	}{
		{name: "it has just come up", owes: true, looks: []instant{limit, limit}},
		{name: "nothing is owed", looks: []instant{limit + 1, 2 * limit, 3 * limit}},
		{name: "one look is not enough", owes: true, looks: []instant{limit + 1}},
		{name: "two are", owes: true, looks: []instant{limit + 1, limit + 2}, silent: true},
		{name: "it has brought something", events: func(c *contact) { c.brought(limit) }, owes: true, looks: []instant{limit + 1, 2 * limit}},
		{name: "and nothing since", events: func(c *contact) { c.brought(limit) }, owes: true, looks: []instant{2*limit + 1, 2*limit + 2}, silent: true},
		{name: "it owes only since then", events: func(c *contact) { c.beganToOwe(limit) }, owes: true, looks: []instant{2 * limit, 2 * limit}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c contact
			c.cameUp(0)
			if tc.events != nil {
				tc.events(&c)
			}
			silent := false
			for _, now := range tc.looks {
				require.False(t, silent)
				silent = c.silent(now, tc.owes, limit)
			}
			require.Equal(t, tc.silent, silent)
		})
	}
	var c contact
	require.False(t, c.silent(2*limit, true, limit))
	c.brought(2 * limit)
	require.False(t, c.silent(3*limit, true, limit))
	require.False(t, c.silent(3*limit+1, true, limit), "the first look since it was heard")
}
