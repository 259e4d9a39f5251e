// Package resp writes commands and reads replies in RESP, the protocol that
// Redis and Valkey speak, versions 2 and 3.
//
// A command is an array of bulk strings. [AppendCommand] encodes one whole; the
// other Append functions encode it piece by piece, so that a caller can build a
// command once and write the same bytes to every master.
//
// A reply starts with its type byte (see [Kind]) and takes one of three forms:
//
//	+OK\r\n                 a line: + - : _ # , (
//	$5\r\nhello\r\n         a length, then that many bytes: $ ! =
//	*2\r\n:1\r\n:2\r\n      a count, then that many replies: * % ~ | >
//
// A map (%) and an attribute (|) count pairs. "$-1\r\n" and "*-1\r\n" are the
// nulls of RESP2 and decode as the null of RESP3, "_\r\n".
//
// [Decode] keeps no state and allocates nothing: what it returns is a view into
// the buffer that it was given, and lives only as long as the bytes in it. It
// keeps three outcomes apart: a whole reply, a partial one ([ErrPartial]: read
// more), and bytes that no continuation can make valid ([ErrInvalid]: the stream
// is out of step and must be closed). It is stricter than the specification where
// servers are: integers and lengths have no plus sign and no leading zero.
package resp
