package conn

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/internal/redisproc"
)

func TestRealServer(t *testing.T) {
	const script = "return ARGV[1]"
	server := redisproc.Start(t, 1, "--unixsocket", "s", "--requirepass", "sesame")[0]
	sum := sha1.Sum([]byte(script))
	for _, address := range []string{
		"redis://:sesame@" + server.Addr() + "/3",
		"redis://default:sesame@" + server.Addr() + "/3",
		"unix://" + filepath.Join(server.Dir(), "s"),
	} {
		for _, pump := range []bool{false, true} {
			a, err := ParseAddress(address)
			require.NoError(t, err)
			c := dial(t, a, Options{Password: "sesame", DB: 3, ClientName: "tester", Pump: pump, Scripts: []string{script}})
			info := c.Info()
			require.Len(t, info.RunID, 40)
			require.NotEmpty(t, info.Version)
			require.Equal(t, 3, info.Proto)
			require.Equal(t, "master", info.Role)

			c.send(command("EVALSHA", hex.EncodeToString(sum[:]), "0", "loaded") + command("CLIENT", "GETNAME") +
				command("SET", "key", "value", "NX", "PX", "30000") + command("SET", "key", "value", "NX", "PX", "30000") +
				command("DBSIZE") + command("FLUSHALL"))
			require.Equal(t, "loaded", string(c.next().Data))
			require.Equal(t, "tester", string(c.next().Data))
			require.Equal(t, "OK", string(c.next().Data))
			require.Equal(t, "null", c.next().Kind.String())
			require.EqualValues(t, 1, c.next().Int)
			require.Equal(t, "OK", string(c.next().Data))

			// The address and the id are what CLIENT KILL wants: it finds exactly us.
			other := dial(t, a, Options{Password: "sesame", DB: 3, Pump: pump})
			other.send(command("CLIENT", "KILL", "ID", strconv.FormatInt(info.ClientID, 10), "ADDR", info.LocalAddr))
			require.EqualValues(t, 1, other.next().Int)
			_, err = c.nextOrError()
			require.Error(t, err)
		}
	}
	t.Run("wrong password", func(t *testing.T) {
		a, err := ParseAddress("redis://:wrong-one@" + server.Addr())
		require.NoError(t, err)
		e := dialError(t, context.Background(), a, Options{})
		require.ErrorContains(t, e, "WRONGPASS")
		require.NotContains(t, e.Error(), "wrong-one")
	})
	t.Run("no password", func(t *testing.T) {
		a, err := ParseAddress(server.Addr())
		require.NoError(t, err)
		require.ErrorContains(t, dialError(t, context.Background(), a, Options{}), "the master wants a password and none is configured")
	})
	t.Run("no such database", func(t *testing.T) {
		a, err := ParseAddress("redis://" + server.Addr() + "/99")
		require.NoError(t, err)
		e := dialError(t, context.Background(), a, Options{Password: "sesame", DB: 1})
		require.NoError(t, err)
		require.Equal(t, "select", e.Op)
	})
}
