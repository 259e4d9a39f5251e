package main

import (
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/goredlock/redlock/resp"
)

// floorForms are the commands in the dialect that all masters know.
type floorForms struct {
	release func(dst []byte, key, value string) []byte
	extend  func(dst []byte, key, value string, ttl time.Duration) []byte
}

// What a master may know natively; redlock prefers it to the script.
const (
	nativeDELEX = iota
	nativeDELIFEQ
	nativeSET // with IFEQ
)

const probeKey = "floor:probe" // never set

// The scripts are redlock's.
const (
	floorReleaseScript = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`
	floorExtendScript  = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end`
)

// probeFloor clears what the master does not know natively, and loads the
// scripts.
func probeFloor(addr string, native *[3]bool, shas *[2]string) error {
	w, err := dialWire(addr)
	if err != nil {
		return err
	}
	defer w.close()
	for i, probe := range [...][]string{
		nativeDELEX:   {"DELEX", probeKey, "IFEQ", "x"},
		nativeDELIFEQ: {"DELIFEQ", probeKey, "x"},
		nativeSET:     {"SET", probeKey, "x", "IFEQ", "x"},
	} {
		if _, err := w.do(probe...); err != nil {
			native[i] = false
		}
	}
	for i, script := range [...]string{floorReleaseScript, floorExtendScript} {
		if shas[i], err = w.do("SCRIPT", "LOAD", script); err != nil {
			return err
		}
	}
	return nil
}

// formsFor chooses the commands that every master knows.
func formsFor(native [3]bool, releaseSHA, extendSHA string) floorForms {
	forms := floorForms{
		release: func(dst []byte, key, value string) []byte {
			return resp.AppendCommand(dst, "EVALSHA", releaseSHA, "1", key, value)
		},
		extend: func(dst []byte, key, value string, ttl time.Duration) []byte {
			dst = resp.AppendArray(dst, 6)
			for _, arg := range [...]string{"EVALSHA", extendSHA, "1", key, value} {
				dst = resp.AppendBulk(dst, arg)
			}
			return resp.AppendInt(dst, ttl.Milliseconds())
		},
	}
	switch {
	case native[nativeDELEX]:
		forms.release = func(dst []byte, key, value string) []byte {
			return resp.AppendCommand(dst, "DELEX", key, "IFEQ", value)
		}
	case native[nativeDELIFEQ]:
		forms.release = func(dst []byte, key, value string) []byte {
			return resp.AppendCommand(dst, "DELIFEQ", key, value)
		}
	}
	if native[nativeSET] {
		forms.extend = func(dst []byte, key, value string, ttl time.Duration) []byte {
			dst = resp.AppendArray(dst, 7)
			for _, arg := range [...]string{"SET", key, value, "IFEQ", value, "PX"} {
				dst = resp.AppendBulk(dst, arg)
			}
			return resp.AppendInt(dst, ttl.Milliseconds())
		}
	}
	return forms
}

func appendSet(dst []byte, key, value string, ttl time.Duration) []byte {
	dst = resp.AppendArray(dst, 6)
	for _, arg := range [...]string{"SET", key, value, "NX", "PX"} {
		dst = resp.AppendBulk(dst, arg)
	}
	return resp.AppendInt(dst, ttl.Milliseconds())
}

func floorValue() string {
	var raw [20]byte
	_, _ = rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}
