package main

import "time"

// jobEnv, set to anything, makes the program a client process. It is how the
// program starts itself: each implementation is measured in a process of its own,
// anew in each turn, so that processor time, allocations and goroutines are its
// own and nothing of one turn is left in the next.
const jobEnv = "REDLOCK_PEERS_CLIENT"

// job is the first line that a client process reads. Then it connects and warms
// up, says "ready", waits for "go", works, says "done", waits for "end" and says
// its result. If its standard input ends early, so does it.
type job struct {
	Impl     string        `json:"impl"`
	Task     task          `json:"task"`
	Addrs    []string      `json:"addrs"`
	Callers  int           `json:"callers"`
	KeySize  int           `json:"key_size"`
	TTL      time.Duration `json:"ttl"`
	WarmUp   time.Duration `json:"warm_up"`
	Duration time.Duration `json:"duration"`
	Grace    time.Duration `json:"grace"` // how long what has begun may take after that
	Patient  bool          `json:"patient"`
	Board    string        `json:"board,omitempty"` // the file of the contenders' board
}

// message is one line of a client process.
type message struct {
	State  string  `json:"state"` // "ready", "done" or "result"
	Error  string  `json:"error,omitempty"`
	Result *result `json:"result,omitempty"`
}

const (
	stateReady  = "ready"
	stateDone   = "done"
	stateResult = "result"
	orderGo     = "go"
	orderEnd    = "end"
)

// result is what a client process has done between "go" and "end".
type result struct {
	Ops        int64         `json:"ops"`
	Errors     int64         `json:"errors"`
	Unfinished int64         `json:"unfinished"` // of the errors: those that outlasted the grace
	FirstError string        `json:"first_error,omitempty"`
	Elapsed    time.Duration `json:"elapsed"` // until the last caller stopped, or the grace ended
	Latency    sparse        `json:"latency"` // of ops, and of what was unfinished
	CPU        time.Duration `json:"cpu"`     // user and system, until "end"
	Mallocs    uint64        `json:"mallocs"`
	Bytes      uint64        `json:"bytes"`
	Goroutines int           `json:"goroutines"` // at the peak
	Tenures    []tenure      `json:"tenures,omitempty"`
	Until      int64         `json:"until"` // when the callers were to stop, in Unix nanoseconds
}

// tenure is a time for which a caller held the contended key: from the return of
// its acquire to the call of its release, in Unix nanoseconds, which all
// processes of a machine read off the same clock.
type tenure struct {
	Begin int64 `json:"b"`
	End   int64 `json:"e"`
}
