// Package redlock locks a resource on a majority of N independent Redis
// masters: the Redlock algorithm of the Redis documentation, through an engine
// of its own that shares one connection per master among all callers, encodes
// a command once, writes it to all masters without blocking, and returns at
// the reply that makes the quorum.
//
//	client, err := redlock.New(redlock.Config{Masters: []string{
//		"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}})
//	…
//	lock, err := client.Acquire(ctx, "invoice:42", 10*time.Second)
//	if err != nil {
//		return err
//	}
//	defer lock.Release()
//	// The resource is ours until lock.Until().
//
// # What a lock promises
//
// At any time at most one Lock on a resource is valid, as long as a quorum of
// masters keeps its keys for their ttl, their clocks and ours run at rates that
// differ by less than Config.DriftFactor, and the holder does nothing to the
// resource after Lock.Until. A master that restarts without its keys can break
// this; so can a holder that does not look at the time. Masters must be
// independent: replicas and cluster nodes are not, because a promoted replica
// may not have the newest keys.
//
// # Errors
//
// A failed round is a *QuorumError, which matches one of ErrLocked,
// ErrNoQuorum, ErrExpired, ErrNotHeld and ErrClosed with errors.Is, the
// context's error if that ended the wait, and a *MasterError for every master
// that failed. Bad arguments get another error, before anything is sent.
package redlock
