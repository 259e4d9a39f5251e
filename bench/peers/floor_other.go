//go:build !unix

package main

import (
	"errors"
	"time"
)

var errNoFloor = errors.New("the floor needs poll(2)")

func dialFloor(string) (floorSocket, error) { return nil, errNoFloor }

func pollFloor([]*floorMaster, time.Duration) error { return errNoFloor }
