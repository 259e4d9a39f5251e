package conn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/fakeredis"
)

func TestServersOfEveryKind(t *testing.T) {
	for flavor, want := range map[fakeredis.Flavor]Info{
		fakeredis.Redis5:  {Proto: 2},
		fakeredis.Redis70: {Proto: 3},
		fakeredis.Redis84: {Proto: 3, Release: FormDELEX, Extend: FormSETIFEQ},
		fakeredis.Valkey9: {Proto: 3, Release: FormDELIFEQ, Extend: FormSETIFEQ},
	} {
		for _, password := range []string{"", "sesame"} {
			t.Run(flavor.String()+" "+password, func(t *testing.T) {
				s := fakeredis.Start(t, fakeredis.Config{Flavor: flavor, Password: password})
				a, err := ParseAddress(s.Addr())
				require.NoError(t, err)
				c := dial(t, a, Options{Password: password, DB: 3, ClientName: "tester"})
				info := c.Info()
				require.Equal(t, want.Proto, info.Proto)
				require.Equal(t, want.Release, info.Release)
				require.Equal(t, want.Extend, info.Extend)
				require.Equal(t, s.RunID(), info.RunID)
				require.Equal(t, "master", info.Role)
				clients := s.Clients()
				require.Len(t, clients, 1)
				require.Equal(t, clients[0].ID, info.ClientID)
				require.Equal(t, clients[0].Addr, info.LocalAddr)
				require.Equal(t, "tester", clients[0].Name)
				c.send(command("SET", "key", "value"))
				require.Equal(t, "OK", string(c.next().Data))
				_, found := s.DB(3).Get("key")
				require.True(t, found)
			})
		}
	}
}
