package fakeredis

import (
	"bufio"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLockPipelined is what a lock costs a master: SET NX PX and the compare-and-delete script, pipelined over
// one connection. One operation is two commands.
func BenchmarkLockPipelined(b *testing.B) {
	for _, flavor := range []struct {
		Flavor
		release []string
	}{
		{Redis70, nil},
		{Redis84, []string{"DELEX", "resource", "IFEQ", "01234567890123456789"}},
	} {
		b.Run(flavor.String(), func(b *testing.B) {
			s := Start(b, Config{Flavor: flavor.Flavor})
			conn, err := net.Dial("tcp", s.Addr())
			require.NoError(b, err)
			c := newRawClient(b, conn)
			release := flavor.release
			if release == nil {
				sha := c.do("SCRIPT", "LOAD", compareAndDelete)[5:45]
				release = []string{"EVALSHA", sha, "1", "resource", "01234567890123456789"}
			}
			const depth = 64
			one := append(encode("SET", "resource", "01234567890123456789", "NX", "PX", "30000"), encode(release...)...)
			var batch []byte
			for range depth {
				batch = append(batch, one...)
			}
			r := bufio.NewReaderSize(conn, 64<<10)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += depth {
				_, err := conn.Write(batch)
				require.NoError(b, err)
				for range depth {
					ok, _ := r.ReadString('\n')
					one, err := r.ReadString('\n')
					if err != nil || ok != "+OK\r\n" || one != ":1\r\n" {
						b.Fatal(ok, one, err)
					}
				}
			}
			b.StopTimer()
			b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "commands/s")
		})
	}
}
