//go:build !unix

package redisproc

import "errors"

func suspend(*run) error { return errors.ErrUnsupported }
func resume(*run) error  { return errors.ErrUnsupported }
