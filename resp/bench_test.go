package resp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/goredlock/redlock/resp"
)

var sink []byte

func BenchmarkAppendCommand(b *testing.B) {
	const resource, value = "orders:42:invoice", "q7mX2sR9dLkP0aZtYbEw"
	bytesOf := [][]byte{[]byte("SET"), []byte(resource), []byte(value), []byte("NX"), []byte("PX"), []byte("30000")}
	dst := make([]byte, 0, 256)
	b.Run("set-strings", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink = resp.AppendCommand(dst, "SET", resource, value, "NX", "PX", "30000")
		}
	})
	b.Run("set-bytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink = resp.AppendCommand(dst, bytesOf...)
		}
	})
	b.Run("set-piecewise", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := resp.AppendArray(dst, 6)
			d = resp.AppendBulk(d, "SET")
			d = resp.AppendBulk(d, resource)
			d = resp.AppendBulk(d, bytesOf[2])
			d = resp.AppendBulk(d, "NX")
			d = resp.AppendBulk(d, "PX")
			sink = resp.AppendInt(d, 30000)
		}
	})
}

func BenchmarkAppendBulk(b *testing.B) {
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		sink = resp.AppendBulk(dst, "q7mX2sR9dLkP0aZtYbEw")
	}
}

func BenchmarkAppendInt(b *testing.B) {
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		sink = resp.AppendInt(dst, 30000)
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct{ name, in string }{
		{"ok", "+OK\r\n"},
		{"null-bulk", "$-1\r\n"},
		{"null", "_\r\n"},
		{"one", ":1\r\n"},
		{"integer-19-digits", ":9223372036854775807\r\n"},
		{"error", "-NOSCRIPT No matching script. Please use EVAL.\r\n"},
		{"bulk-info", "$7000\r\n" + strings.Repeat("x", 7000) + "\r\n"},
		{"push", ">2\r\n$10\r\ninvalidate\r\n*1\r\n$17\r\norders:42:invoice\r\n"},
		{"hello", "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n" +
			"$2\r\nid\r\n:4\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"},
	} {
		buf := []byte(c.in)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v resp.Value
				n, err := v.Decode(buf)
				if err != nil || n != len(buf) || v.Kind == 0 {
					b.Fatal("not decoded")
				}
			}
		})
	}

	// What the copies of a returned Value add.
	ok := []byte("+OK\r\n")
	b.Run("ok-returned", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, n, err := resp.Decode(ok)
			if err != nil || n != len(ok) || v.Kind == 0 {
				b.Fatal("not decoded")
			}
		}
	})
	b.Run("ok-in-32-replies", func(b *testing.B) { // one read of a busy connection
		buf := bytes.Repeat(ok, 32)
		b.ReportAllocs()
		for b.Loop() {
			var v resp.Value
			for rest := buf; len(rest) > 0; {
				n, err := v.Decode(rest)
				if err != nil || !v.IsOK() {
					b.Fatal("not decoded")
				}
				rest = rest[n:]
			}
		}
	})
}
