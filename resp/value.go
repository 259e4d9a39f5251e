package resp

import "bytes"

// Kind is the type byte of a reply. The zero Kind means that there is no value;
// [Decode] never returns it together with a nil error.
type Kind byte

// The kinds of RESP. Everything from Null on came with version 3.
const (
	SimpleString Kind = '+'
	Error        Kind = '-'
	Integer      Kind = ':'
	Bulk         Kind = '$'
	Array        Kind = '*'
	Null         Kind = '_'
	Boolean      Kind = '#'
	Double       Kind = ','
	BigNumber    Kind = '('
	BulkError    Kind = '!'
	Verbatim     Kind = '='
	Map          Kind = '%'
	Set          Kind = '~'
	Attribute    Kind = '|'
	Push         Kind = '>'
)

// String returns the name of the kind, for messages.
func (k Kind) String() string {
	switch k {
	case SimpleString:
		return "simple string"
	case Error:
		return "error"
	case Integer:
		return "integer"
	case Bulk:
		return "bulk string"
	case Array:
		return "array"
	case Null:
		return "null"
	case Boolean:
		return "boolean"
	case Double:
		return "double"
	case BigNumber:
		return "big number"
	case BulkError:
		return "bulk error"
	case Verbatim:
		return "verbatim string"
	case Map:
		return "map"
	case Set:
		return "set"
	case Attribute:
		return "attribute"
	case Push:
		return "push"
	}
	return "no value"
}

// Value is one decoded reply. Data is a view into the buffer that was decoded: it
// is valid only until those bytes change, and must not be written to. Copying a
// Value copies the view, not the bytes.
type Value struct {
	Kind Kind

	// Int is the number of an Integer, 0 or 1 for a Boolean, and the number of
	// elements of an aggregate: for a Map or an Attribute two for each pair, for
	// each key is an element and so is each value. Next does not change it.
	Int int64

	// Data is the string, the text of an error, the digits of a Double or
	// BigNumber, the text of a Verbatim without its "txt:", or the encoded elements
	// of an aggregate. It is nil for Integer, Boolean and Null.
	Data []byte
}

// IsError reports whether the master answered with an error, short or long.
func (v Value) IsError() bool { return v.Kind == Error || v.Kind == BulkError }

// IsOK reports whether v is the simple string OK. It takes a pointer because it is
// asked of most replies, and even an inlined method copies its receiver.
func (v *Value) IsOK() bool { return v.Kind == SimpleString && string(v.Data) == "OK" }

// IsText reports whether Data is text that is not an error: a SimpleString, a Bulk
// or a Verbatim.
func (v Value) IsText() bool {
	return v.Kind == SimpleString || v.Kind == Bulk || v.Kind == Verbatim
}

// IsAggregate reports whether v has elements for [Value.Next] to return; an empty
// one is an aggregate too.
func (v Value) IsAggregate() bool {
	switch v.Kind {
	case Array, Map, Set, Attribute, Push:
		return true
	}
	return false
}

// Code returns the first word of an error, by which servers tell errors apart, such
// as OOM or NOSCRIPT. It is a view like Data. For anything but an error it is nil.
func (v Value) Code() []byte {
	if !v.IsError() {
		return nil
	}
	if i := bytes.IndexByte(v.Data, ' '); i >= 0 {
		return v.Data[:i:i]
	}
	return v.Data
}

// Next returns the next element of an aggregate and removes it from v.Data; ok is
// false after the last one and for a v that is not an aggregate. A Map or an
// Attribute gives its keys and values in turn. Attributes among the elements are
// skipped. It allocates nothing; elem is a view like v.
func (v *Value) Next() (elem Value, ok bool) {
	if !v.IsAggregate() {
		return Value{}, false
	}
	for len(v.Data) > 0 {
		n, err := elem.Decode(v.Data)
		if err != nil { // only if v was not made by Decode, or its bytes have changed
			v.Data = nil
			return Value{}, false
		}
		v.Data = v.Data[n:]
		if elem.Kind != Attribute {
			return elem, true
		}
	}
	return Value{}, false
}
