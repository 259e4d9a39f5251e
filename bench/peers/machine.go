package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine says where the run took place.
func machine() string {
	m := fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if p := runtime.GOMAXPROCS(0); p != runtime.NumCPU() {
		m += fmt.Sprintf(" (GOMAXPROCS %d)", p)
	}
	if model := processor(); model != "" {
		m += ", " + model
	}
	return m
}

// processor is the model's name, where Linux tells it.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
